// The level falls by the milliseconds that a slow I/O took and recovers by one for each I/O that
// was fast enough; besides, one millisecond without a slow I/O is worth one step when a decision is
// taken. The limit is exponential in the result: barely congested bypasses only runs of some 32
// MiB, badly congested everything.
//
// Kernel-compatible: microseconds are 1024 ns and milliseconds 1024 of those, here and in the
// knobs.
#include "policy/congestion.h"

#include <algorithm>
#include <bit>

namespace uc::policy {
namespace {

constexpr std::int32_t kWorst = 1024;

std::int64_t in_us(Duration duration) {
    return duration.count() >> 10;
}

// 2^(i/64), the fraction linear between powers of two.
std::int64_t exp2_of_64ths(std::int64_t i) {
    return ((64 + (i & 63)) << (i >> 6)) >> 6;
}

}  // namespace

void Congestion::sample(Duration latency, std::uint32_t threshold_us, Instant now) {
    if (threshold_us == 0) return;
    const std::int64_t us = in_us(latency);
    if (us > threshold_us) {
        const std::int64_t ms = us / 1024;
        level_ -= static_cast<std::int32_t>(std::min<std::int64_t>(ms, kWorst + level_));
        last_us_ = in_us(now.since_start);
    } else if (level_ < 0) {
        ++level_;
    }
}

std::uint32_t Congestion::limit_sectors(Instant now, std::uint32_t random) const {
    std::int64_t i = (in_us(now.since_start) - last_us_) / 1024;
    if (i < 0) return 0;
    i += level_;
    if (i >= 0) return 0;
    i += kWorst;
    if (i > 0) i = exp2_of_64ths(i);
    i -= std::popcount(random);
    return static_cast<std::uint32_t>(std::max<std::int64_t>(i, 1));
}

}  // namespace uc::policy
