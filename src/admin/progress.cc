#include "admin/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "admin/size_text.h"

namespace uc::admin {

namespace {
constexpr std::chrono::seconds kPlainInterval(10);
constexpr double kMinElapsed = 1.0;  // seconds before the speed means anything
}  // namespace

std::string Progress::line(const std::string& volume, std::uint64_t total_bytes,
                           std::uint64_t remaining_bytes, double elapsed_s) {
    const std::uint64_t done = total_bytes - std::min(total_bytes, remaining_bytes);
    // Rounded down, so that 100 means all of it.
    const std::uint64_t percent =
        remaining_bytes == 0
            ? 100
            : std::min<std::uint64_t>(99,
                                      static_cast<std::uint64_t>(100.0 * static_cast<double>(done) /
                                                                 static_cast<double>(total_bytes)));
    std::string text = fmt::format("{}: {} of {} written back ({}%)", volume, pretty_size(done),
                                   pretty_size(total_bytes), percent);
    if (remaining_bytes == 0 || done == 0 || elapsed_s < kMinElapsed) return text;
    const double left =
        elapsed_s * static_cast<double>(remaining_bytes) / static_cast<double>(done);
    return text +
           fmt::format(", {} left", pretty_seconds(static_cast<std::uint64_t>(std::ceil(left))));
}

Progress::~Progress() {
    if (terminal_ && !finished_) std::fprintf(stderr, "\n");
}

void Progress::update(const std::string& volume, std::uint64_t total_bytes,
                      std::uint64_t remaining_bytes) {
    const Clock::time_point now = Clock::now();
    if (volume != volume_ || finished_) {
        volume_ = volume;
        started_ = now;
        printed_ = now;
        finished_ = false;
    }
    finished_ = remaining_bytes == 0;
    if (!terminal_ && !finished_ && now - printed_ < kPlainInterval) return;
    printed_ = now;
    const double elapsed = std::chrono::duration<double>(now - started_).count();
    const std::string text = line(volume, total_bytes, remaining_bytes, elapsed);
    if (terminal_) {
        std::fprintf(stderr, "\r\033[K%s%s", text.c_str(), finished_ ? "\n" : "");
    } else {
        std::fprintf(stderr, "%s\n", text.c_str());
    }
}

}  // namespace uc::admin
