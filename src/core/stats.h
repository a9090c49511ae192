// Counters and measurements of a volume and of a set. Every request is counted under exactly one
// route.
#pragma once

#include <array>
#include <cstdint>

#include "base/latency_histogram.h"
#include "base/time_stats.h"

namespace uc::core {

// Why a request was or was not cached. The names are stable: they appear in status and metrics.
enum class Reason : std::uint8_t {
    cached,      // went through the cache
    mode,        // cache mode says no (none; writes in writearound)
    sequential,  // run reached sequential_cutoff
    congested,   // the cache is slow and the run is long enough
    unaligned,   // not a multiple of the cache's block size
    full,        // in_use above 95 per cent
    detaching,   // the volume is leaving its set
    discard,     // discards are never cached
    no_bucket,   // no bucket was free at once
    no_set,      // the volume runs without a cache set
    count_,
};
inline constexpr std::size_t kReasons = static_cast<std::size_t>(Reason::count_);
const char* name_of(Reason reason);  // "cached", "mode", ...

// The last round of the controller of write-back, in sectors (per second).
struct RateRound {
    std::int64_t target = 0, proportional = 0, integral = 0, change = 0;
    std::int64_t next_io_ms = 0;  // negative: overdue
};

struct VolumeStats {
    std::uint64_t reads = 0, writes = 0, flushes = 0, discards = 0;
    std::uint64_t read_sectors = 0, written_sectors = 0;
    std::uint64_t cache_hits = 0, cache_misses = 0;  // requests, like the kernel's
    std::uint64_t cache_bypass_hits = 0, cache_bypass_misses = 0;
    std::uint64_t cache_miss_collisions = 0;  // fills that lost against a write
    std::uint64_t cache_read_races = 0;       // bucket reused while reading
    std::uint64_t bypassed_sectors = 0;
    std::array<std::uint64_t, kReasons> read_reasons{};
    std::array<std::uint64_t, kReasons> write_reasons{};
    std::uint64_t filled_sectors = 0;
    std::uint64_t writeback_keys_done = 0, writeback_keys_failed = 0;
    std::uint64_t writeback_sectors = 0;
    std::uint64_t io_errors = 0;
    RateRound rate_round;
    // Of device I/O that requests of users wait for.
    LatencyHistogram cache_read, cache_write, backing_read, backing_write;
};

struct SetStats {
    std::uint64_t journal_writes = 0, journal_flushes = 0, journal_keys = 0;
    std::uint64_t node_writes = 0, node_reads = 0, node_splits = 0, node_merges = 0;
    std::uint64_t prio_writes = 0;
    std::uint64_t prio_tables_rebuilt = 0;  // damaged when the set was opened
    std::uint64_t gc_passes = 0;
    std::uint64_t buckets_invalidated = 0;
    std::uint64_t cache_io_errors = 0;
    std::uint64_t journal_reclaims = 0;        // times that leaves were asked to free journal space
    std::uint64_t active_journal_entries = 0;  // with keys that no leaf on disk has yet
    std::uint64_t congested_sectors = 0;       // runs of this length bypass the cache; 0 = none
    TimeStats gc_times, split_times, node_read_times;
    // What the last garbage collection saw; zeroes before the first one.
    std::uint64_t gc_nodes = 0, gc_key_bytes = 0, gc_extents = 0, gc_extent_sectors = 0;
    std::uint64_t btree_written_sectors = 0, metadata_written_sectors = 0, written_sectors = 0;
};

}  // namespace uc::core
