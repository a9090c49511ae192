// Labels: text in memory, 32 NUL-padded bytes on disk (unused bytes are zero, unlike
// weakness 11.23).
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace uc::core {

inline constexpr std::size_t kMaxLabel = 31;

inline std::array<char, 32> label_bytes(std::string_view label) {
    std::array<char, 32> bytes{};
    std::copy_n(label.begin(), std::min(label.size(), kMaxLabel), bytes.begin());
    return bytes;
}

inline std::string label_text(const std::array<char, 32>& bytes) {
    std::string text(bytes.begin(), std::find(bytes.begin(), bytes.end(), '\0'));
    return text.substr(0, text.find('\n'));
}

}  // namespace uc::core
