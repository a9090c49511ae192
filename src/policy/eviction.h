// Which bucket to reuse, and how priorities age (format sections 3.5 and 3.8).
#pragma once

#include <cstdint>
#include <optional>

#include "base/rng.h"
#include "base/units.h"

namespace uc::policy {

inline constexpr std::uint16_t kInitialPrio = 32768;
inline constexpr std::uint16_t kMetadataPrio = 65535;

// Replacement "lru": the bucket with the smallest score goes first. `min_prio` is the smallest
// priority among the data buckets, as far as known.
std::uint64_t lru_score(std::uint16_t prio, std::uint16_t min_prio, std::uint32_t sectors_used);

// Ages all priorities in constant time. A bucket keeps a stamp instead of its priority; advancing
// the clock by one lowers all of them, and the priority is computed when somebody looks.
class PrioClock {
public:
    explicit PrioClock(std::uint64_t cache_sectors);

    // A request of `sectors` went through the cache.
    void charge(std::uint64_t sectors);

    // Metadata does not age: its priority is not to be stamped.
    std::uint64_t stamp(std::uint16_t prio) const { return ticks_ + prio; }
    // Never below 0, and never kMetadataPrio.
    std::uint16_t prio(std::uint64_t stamp) const;
    std::uint64_t ticks() const { return ticks_; }

private:
    std::uint64_t sectors_per_tick_;
    std::uint64_t charged_ = 0;
    std::uint64_t ticks_ = 0;
};

// Replacement "fifo": the data buckets [first, end) in number order, for ever.
class FifoCursor {
public:
    FifoCursor(BucketIndex first, BucketIndex end) : first_(first), end_(end), next_(first) {}
    // Nothing if there is no data bucket.
    std::optional<BucketIndex> take();

private:
    BucketIndex first_, end_, next_;
};

// Replacement "random": one of [first, end).
std::optional<BucketIndex> random_bucket(Rng& rng, BucketIndex first, BucketIndex end);

}  // namespace uc::policy
