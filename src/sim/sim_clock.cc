#include "sim/sim_clock.h"

#include <algorithm>

#include "base/check.h"

namespace uc::sim {

std::uint32_t SimClock::wall_seconds() const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now_.since_start);
    return kWallStart + static_cast<std::uint32_t>(seconds.count());
}

void SimClock::arm(io::Timer* timer) {
    CHECK(!timer->armed);
    timer->armed = true;
    timer->due = std::max(timer->due, now_);
    timer->order = armed_++;
    pending_.emplace(std::pair(timer->due, timer->order), timer);
}

void SimClock::cancel(io::Timer* timer) {
    if (!timer->armed) return;
    timer->armed = false;
    pending_.erase({timer->due, timer->order});
}

Instant SimClock::next_due() const {
    CHECK(!pending_.empty());
    return pending_.begin()->first.first;
}

void SimClock::fire_next() {
    CHECK(!pending_.empty());
    io::Timer* const timer = pending_.begin()->second;
    now_ = timer->due;
    cancel(timer);
    timer->fire();
}

}  // namespace uc::sim
