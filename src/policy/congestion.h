// Congestion of a cache device, from the latencies of its I/O (format section 7.2).
#pragma once

#include <cstdint>

#include "base/units.h"

namespace uc::policy {

class Congestion {
public:
    // One cache I/O completed at `now` after `latency`. The threshold is the one for its direction,
    // in units of 1.024 us like the knob of that name; 0 ignores the sample.
    void sample(Duration latency, std::uint32_t threshold_us, Instant now);

    // A request whose run has at least this many sectors should bypass the cache; 0 = not
    // congested. `random` spreads the decision, so that the requests of one run do not all go the
    // same way.
    std::uint32_t limit_sectors(Instant now, std::uint32_t random) const;

    // -1024 (badly congested) ... 0.
    std::int32_t level() const { return level_; }

private:
    std::int32_t level_ = 0;
    std::int64_t last_us_ = 0;  // when a sample last exceeded its threshold
};

}  // namespace uc::policy
