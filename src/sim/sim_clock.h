// Virtual time. Nothing happens between two timers, so an hour costs as much as the events in it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "io/clock.h"

namespace uc::sim {

class SimClock final : public io::Clock {
public:
    // What the wall clock shows at the start: on-disk stamps are then plausible and reproducible.
    static constexpr std::uint32_t kWallStart = 1'700'000'000;

    Instant now() const override { return now_; }
    std::uint32_t wall_seconds() const override;
    void arm(io::Timer* timer) override;
    void cancel(io::Timer* timer) override;

    bool has_timer() const { return !pending_.empty(); }
    Instant next_due() const;  // there must be a timer
    // Moves to the next timer (the first armed among equals) and fires it. There must be one.
    void fire_next();

private:
    Instant now_;
    std::uint64_t armed_ = 0;
    std::map<std::pair<Instant, std::uint64_t>, io::Timer*> pending_;
};

}  // namespace uc::sim
