// What the counters of a set say about the life that it had.

#include "sim/machine.h"

namespace uc::sim {

namespace {

void count_volume(Coverage& seen, const core::SetVolume& volume) {
    const core::VolumeStats& stats = volume.stats();
    seen.add(Seen::cache_hits, stats.cache_hits);
    seen.add(Seen::filled, stats.filled_sectors);
    seen.add(Seen::collisions, stats.cache_miss_collisions);
    seen.add(Seen::read_races, stats.cache_read_races);
    seen.add(Seen::written_back, stats.writeback_sectors);
    using core::Reason;
    static constexpr std::pair<Reason, Seen> kReasons[] = {
        {Reason::mode, Seen::bypass_mode},           {Reason::sequential, Seen::bypass_sequential},
        {Reason::congested, Seen::bypass_congested}, {Reason::unaligned, Seen::bypass_unaligned},
        {Reason::full, Seen::bypass_full},           {Reason::detaching, Seen::bypass_detaching},
        {Reason::no_bucket, Seen::bypass_no_bucket}, {Reason::no_set, Seen::bypass_no_set},
    };
    for (const auto& [reason, what] : kReasons) {
        const auto i = static_cast<std::size_t>(reason);
        seen.add(what, stats.read_reasons[i] + stats.write_reasons[i]);
    }
}

}  // namespace

void Machine::count_life() {
    for (const auto& disk : world_.disks()) {
        seen.add(Seen::errors, disk->mishaps().errors);
        seen.add(Seen::flush_errors, disk->mishaps().flush_errors);
        seen.add(Seen::flips, disk->mishaps().flips);
        disk->forget_mishaps();
    }
    if (set_ == nullptr) return;
    const core::SetStats stats = set_->stats();
    seen.add(Seen::buckets_reused, stats.buckets_invalidated);
    seen.add(Seen::full_caches, stats.buckets_invalidated > plan_.nbuckets);
    seen.add(Seen::tables, stats.prio_writes);
    seen.add(Seen::splits, stats.node_splits);
    seen.add(Seen::merges, stats.node_merges);
    seen.add(Seen::collections, stats.gc_passes);
    seen.add(Seen::entries, stats.journal_writes);
    const unsigned depth = set_->tree_depth();
    if (depth > depth_) seen.add(Seen::root_splits, depth - depth_);
    seen.add(Seen::depth_1, depth >= 1);
    seen.add(Seen::depth_2, depth >= 2);
    unsigned backings = 0;
    for (const core::SetVolume* volume : set_->volumes()) {
        count_volume(seen, *volume);
        backings += !volume->flash_only();
    }
    seen.add(Seen::several_backings, backings > 1);
    seen.add(Seen::flash_volumes, backings < set_->volumes().size());
}

}  // namespace uc::sim
