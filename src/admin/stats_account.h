// The counters of a `stats_*` directory (format section 8.6): a total, and three averages that
// decay with half lives of five minutes, an hour and a day.
//
// Kernel-compatible: every 300/22 s what was counted since goes into the averages, and they are
// multiplied by 31/32 each time, every 12th and every 288th time, in units of 1/65536. So they are
// no "counts of the last five minutes": at a steady pace they settle at 32 times the counts of
// their interval.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>

#include "base/units.h"
#include "core/stats.h"

namespace uc::core {
class SetVolume;
}

namespace uc::admin {

enum class Window : std::uint8_t { total, five_minute, hour, day };
inline constexpr unsigned kWindows = 4;

enum class Counter : std::uint8_t {
    bypassed,  // sectors
    cache_hits,
    cache_misses,
    cache_bypass_hits,
    cache_bypass_misses,
    cache_miss_collisions,
    cache_hit_ratio,  // per cent, derived from the others
};
inline constexpr unsigned kCounters = 7;

class StatsAccount {
public:
    using Counts = std::array<std::uint64_t, kCounters - 1>;

    void add(const Counts& counts);
    // To be called every kInterval.
    void tick();
    // The total begins anew; the averages go on.
    void clear() { total_ = Counts{}; }
    std::uint64_t value(Window window, Counter counter) const;

    static constexpr Duration kInterval{300'000'000'000 / 22};

private:
    Counts total_{};
    Counts fresh_{};  // since the last tick
    std::array<Counts, kWindows - 1> decaying_{};
    std::array<unsigned, kWindows - 1> age_{};  // ticks since the last multiplication
};

// The accounts of a set and of its volumes, fed from the engine's counters.
class SetAccounts {
public:
    // Counts what happened since the last look. `now` moves the averages on.
    void look(std::span<core::SetVolume* const> volumes, Instant now);
    // Null: of the whole set.
    const StatsAccount& of(const core::SetVolume* volume) { return account(volume); }
    void clear(const core::SetVolume* volume) { account(volume).clear(); }

private:
    struct Entry {
        StatsAccount::Counts seen{};
        StatsAccount account;
    };
    StatsAccount& account(const core::SetVolume* volume) {
        return volume == nullptr ? set_ : volumes_[volume].account;
    }

    StatsAccount set_;
    std::map<const core::SetVolume*, Entry> volumes_;  // order never shows
    bool started_ = false;
    Instant next_tick_{};
};

}  // namespace uc::admin
