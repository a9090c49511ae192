#include "admin/suggestion.h"

#include <algorithm>

namespace uc::admin {

namespace {

constexpr std::size_t kFar = 3;

// Edit distance in which a swap of neighbours counts as one change.
std::size_t distance(std::string_view a, std::string_view b) {
    const std::size_t width = b.size() + 1;
    std::vector<std::size_t> d((a.size() + 1) * width);
    const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return d[i * width + j]; };
    for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
    for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
            at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + change});
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
        }
    }
    return d.back();
}

bool begins_alike(std::string_view word, std::string_view known) {
    constexpr std::size_t kLetters = 2;
    const std::size_t common = std::min(word.size(), known.size());
    return common >= kLetters && word.substr(0, common) == known.substr(0, common);
}

}  // namespace

std::vector<std::string> near_words(std::string_view word, std::span<const std::string> known) {
    constexpr std::size_t kLongest = 64;  // no command is; keeps the table small
    std::vector<std::string> near;
    if (word.empty() || word.size() > kLongest) return near;
    for (const std::string& candidate : known) {
        if (begins_alike(word, candidate)) near.push_back(candidate);
    }
    if (!near.empty()) return near;
    std::size_t best = kFar;
    for (const std::string& candidate : known) {
        const std::size_t d = distance(word, candidate);
        // Every word of two letters is near every other.
        if (d >= kFar || d >= word.size() || d > best) continue;
        if (d < best) near.clear();
        best = d;
        near.push_back(candidate);
    }
    return near;
}

std::string did_you_mean(const std::vector<std::string>& words) {
    constexpr std::size_t kMost = 3;
    if (words.empty() || words.size() > kMost) return {};
    std::string text = "; did you mean " + words.front();
    for (std::size_t i = 1; i < words.size(); ++i) text += " or " + words[i];
    return text + "?";
}

}  // namespace uc::admin
