// How long something takes and how often it happens, as sysfs shows it (`btree_read_*` and the
// like): moving averages in which the newest value has the weight 1/8.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/units.h"

namespace uc {

struct TimeStats {
    std::uint64_t count = 0;
    Duration average_duration{0};
    Duration max_duration{0};
    Duration average_interval{0};  // between two ends; 0 before the second one
    std::optional<Instant> last_end;

    void add(Instant begin, Instant end) {
        const Duration took = end - begin;
        average_duration = count == 0 ? took : blend(average_duration, took);
        max_duration = std::max(max_duration, took);
        if (last_end) {
            const Duration since = end - *last_end;
            average_interval = count == 1 ? since : blend(average_interval, since);
        }
        last_end = end;
        ++count;
    }

private:
    static Duration blend(Duration old, Duration fresh) { return (old * 7 + fresh) / 8; }
};

}  // namespace uc
