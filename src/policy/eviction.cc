// The lru score weighs how recently a bucket was used with how much would be lost: the term with
// min_prio keeps the coldest buckets from all scoring 0, so that among equally old ones the
// emptiest goes first.
//
// Ageing: whenever 1/1024 of the cache's size has passed through it, every data bucket loses one.
// As all lose at once, only the difference to a common counter matters, and no walk over the
// buckets is needed. (The kernel spares pinned buckets, those in use at the moment; losing one step
// of 32768 is harmless.)
#include "policy/eviction.h"

#include <algorithm>

namespace uc::policy {

std::uint64_t lru_score(std::uint16_t prio, std::uint16_t min_prio, std::uint32_t sectors_used) {
    const std::uint64_t above_min = prio > min_prio ? prio - min_prio : 0;
    const std::uint64_t base = min_prio < kInitialPrio ? (kInitialPrio - min_prio) / 8 : 0;
    return (above_min + base) * sectors_used;
}

PrioClock::PrioClock(std::uint64_t cache_sectors)
    : sectors_per_tick_(std::max<std::uint64_t>(cache_sectors / 1024, 1)) {}

void PrioClock::charge(std::uint64_t sectors) {
    charged_ += sectors;
    ticks_ += charged_ / sectors_per_tick_;
    charged_ %= sectors_per_tick_;
}

std::uint16_t PrioClock::prio(std::uint64_t stamp) const {
    if (stamp <= ticks_) return 0;
    return static_cast<std::uint16_t>(std::min<std::uint64_t>(stamp - ticks_, kMetadataPrio - 1));
}

std::optional<BucketIndex> FifoCursor::take() {
    if (first_ >= end_) return std::nullopt;
    const BucketIndex taken = next_;
    next_ = taken + 1 == end_ ? first_ : taken + 1;
    return taken;
}

std::optional<BucketIndex> random_bucket(Rng& rng, BucketIndex first, BucketIndex end) {
    if (first >= end) return std::nullopt;
    return first + static_cast<BucketIndex>(rng.below(end - first));
}

}  // namespace uc::policy
