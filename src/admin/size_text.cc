#include "admin/size_text.h"

#include <fmt/format.h>

#include <cctype>
#include <limits>

namespace uc::admin {

namespace {

constexpr std::string_view kUnits = "kMGTPEZY";

std::string_view trimmed(std::string_view text) {
    const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    while (!text.empty() && blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && blank(text.back())) text.remove_suffix(1);
    return text;
}

// Powers of 1024 that the suffix stands for; nullopt for an unknown one.
std::optional<unsigned> suffix_power(std::string_view suffix) {
    if (suffix.empty()) return 0;
    std::string lower;
    for (const char c : suffix) {
        lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    if (lower == "b") return 0;
    const std::size_t unit = std::string_view("kmgtpe").find(lower[0]);
    if (unit == std::string_view::npos) return std::nullopt;
    const std::string_view rest = std::string_view(lower).substr(1);
    if (!rest.empty() && rest != "b" && rest != "ib") return std::nullopt;
    return static_cast<unsigned>(unit + 1);
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
    text = trimmed(text);
    std::uint64_t value = 0;
    std::size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
        const auto digit = static_cast<std::uint64_t>(text[digits] - '0');
        if (value > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) return std::nullopt;
        value = value * 10 + digit;
        ++digits;
    }
    if (digits == 0) return std::nullopt;
    const std::optional<unsigned> power = suffix_power(text.substr(digits));
    if (!power) return std::nullopt;
    const unsigned shift = *power * 10;
    if (value != 0 && value > (std::numeric_limits<std::uint64_t>::max() >> shift)) {
        return std::nullopt;
    }
    return value << shift;
}

std::string human(std::uint64_t value) {
    std::size_t unit = 0;
    std::uint64_t remainder = value & 1023;
    value >>= 10;
    while (value >= 1000 && unit + 1 < kUnits.size()) {
        remainder = value & 1023;
        value >>= 10;
        ++unit;
    }
    return fmt::format("{}.{}{}", value, remainder * 10 / 1024, kUnits[unit]);
}

std::string human_signed(std::int64_t value) {
    if (value >= 0) return human(static_cast<std::uint64_t>(value));
    return "-" + human(~static_cast<std::uint64_t>(value) + 1);
}

std::string pretty_size(std::uint64_t bytes) {
    constexpr double kRoundsUp = 1023.95;  // prints as 1024.0
    if (bytes < 1024) return fmt::format("{} bytes", bytes);
    std::size_t unit = 0;
    std::uint64_t scale = 1024;
    const auto quotient = [&] { return static_cast<double>(bytes) / static_cast<double>(scale); };
    while (unit + 1 < kUnits.size() - 2 && quotient() >= kRoundsUp) {
        scale *= 1024;
        ++unit;
    }
    const char letter = unit == 0 ? 'K' : kUnits[unit];
    if (bytes % scale == 0) return fmt::format("{} {}iB", bytes / scale, letter);
    return fmt::format("{:.1f} {}iB", quotient(), letter);
}

std::string pretty_seconds(std::uint64_t seconds) {
    if (seconds < 60) return fmt::format("{} s", seconds);
    if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
    return fmt::format("{} h {} min", seconds / 3600, seconds % 3600 / 60);
}

}  // namespace uc::admin
