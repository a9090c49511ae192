// Numbers as people and sysfs write them: sizes with suffixes, the kernel's "h" format (format
// section 8.1), and friendlier forms for messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace uc::admin {

// An integer with an optional suffix k, m, g, t, p, e (powers of 1024, either case; "K", "KB" and
// "KiB" mean the same). Blanks around it are ignored. No sign, no decimals; nullopt on overflow.
std::optional<std::uint64_t> parse_size(std::string_view text);

// The kernel's "h" format: 0 -> "0.0k", 512 -> "0.5k", 4 MiB -> "4.0M".
std::string human(std::uint64_t value);
std::string human_signed(std::int64_t value);

// For messages: "512 bytes", "4 KiB", "1.5 GiB".
std::string pretty_size(std::uint64_t bytes);
// "45 s", "3 min 20 s", "2 h 5 min".
std::string pretty_seconds(std::uint64_t seconds);

}  // namespace uc::admin
