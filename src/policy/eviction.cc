// The lru score weighs how recently a bucket was used with how much would be lost: the term with
// min_prio keeps the coldest buckets from all scoring 0, so that among equally old ones the
// emptiest goes first.
#include "policy/eviction.h"

namespace uc::policy {
namespace {
constexpr std::uint16_t kInitialPrio = 32768;  // format section 3.5
}

std::uint64_t lru_score(std::uint16_t prio, std::uint16_t min_prio, std::uint32_t sectors_used) {
    const std::uint64_t above_min = prio > min_prio ? prio - min_prio : 0;
    const std::uint64_t base = min_prio < kInitialPrio ? (kInitialPrio - min_prio) / 8 : 0;
    return (above_min + base) * sectors_used;
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
