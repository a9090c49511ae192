// Which bucket to reuse (format section 3.8). Ageing of priorities: alloc/bucket_table.h.
#pragma once

#include <cstdint>
#include <optional>

#include "base/rng.h"
#include "base/units.h"

namespace uc::policy {

// Replacement "lru": the bucket with the smallest score goes first. `min_prio` is the smallest
// priority among the data buckets, as far as known.
std::uint64_t lru_score(std::uint16_t prio, std::uint16_t min_prio, std::uint32_t sectors_used);

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
