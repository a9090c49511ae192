#include "admin/stats_account.h"

#include "core/cache_set.h"

namespace uc::admin {

namespace {

constexpr unsigned kFraction = 16;
constexpr std::array<unsigned, kWindows - 1> kTicksPerDecay{1, 12, 288};
// After so many ticks (three weeks) even the day's average is nothing.
constexpr std::uint64_t kMostTicks = 140'000;

StatsAccount::Counts counts_of(const core::VolumeStats& s) {
    return {s.bypassed_sectors,  s.cache_hits,          s.cache_misses,
            s.cache_bypass_hits, s.cache_bypass_misses, s.cache_miss_collisions};
}

}  // namespace

void StatsAccount::add(const Counts& counts) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
        total_[i] += counts[i];
        fresh_[i] += counts[i];
    }
}

void StatsAccount::tick() {
    for (std::size_t window = 0; window < decaying_.size(); ++window) {
        const bool decays = ++age_[window] == kTicksPerDecay[window];
        if (decays) age_[window] = 0;
        for (std::size_t i = 0; i < fresh_.size(); ++i) {
            std::uint64_t& value = decaying_[window][i];
            value += fresh_[i] << kFraction;
            if (decays) value = value / 32 * 31 + value % 32 * 31 / 32;
        }
    }
    fresh_ = Counts{};
}

std::uint64_t StatsAccount::value(Window window, Counter counter) const {
    if (counter == Counter::cache_hit_ratio) {
        const std::uint64_t hits = value(window, Counter::cache_hits);
        const std::uint64_t all = hits + value(window, Counter::cache_misses);
        return all == 0 ? 0 : hits * 100 / all;
    }
    const auto i = static_cast<std::size_t>(counter);
    if (window == Window::total) return total_[i];
    return decaying_[static_cast<std::size_t>(window) - 1][i] >> kFraction;
}

void SetAccounts::look(std::span<core::SetVolume* const> volumes, Instant now) {
    for (core::SetVolume* volume : volumes) {
        Entry& entry = volumes_[volume];
        const StatsAccount::Counts current = counts_of(volume->stats());
        StatsAccount::Counts fresh{};
        for (std::size_t i = 0; i < fresh.size(); ++i) {
            // Less than before: the set was opened anew after an outage and counts from zero.
            const bool anew = current[i] < entry.seen[i];
            fresh[i] = anew ? current[i] : current[i] - entry.seen[i];
        }
        entry.seen = current;
        entry.account.add(fresh);
        set_.add(fresh);
    }
    if (!started_) next_tick_ = now + StatsAccount::kInterval;
    started_ = true;
    if (now < next_tick_) return;
    const auto late = static_cast<std::uint64_t>((now - next_tick_) / StatsAccount::kInterval) + 1;
    next_tick_ = next_tick_ + StatsAccount::kInterval * static_cast<std::int64_t>(late);
    for (std::uint64_t i = 0; i < std::min(late, kMostTicks); ++i) {
        set_.tick();
        for (auto& [volume, entry] : volumes_) entry.account.tick();
    }
}

}  // namespace uc::admin
