// Attributes of the set and of its cache device.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "admin/attribute_table.h"
#include "admin/size_text.h"

namespace uc::admin::table {

namespace {

constexpr std::array<std::string_view, 3> kPolicies{"lru", "fifo", "random"};

core::SetStats stats(const Target& t) {
    return t.set->stats();
}

template <class Function>
std::uint64_t sum(const Target& t, Function of) {
    std::uint64_t out = 0;
    for (const core::SetVolume* volume : t.set->volumes()) out += of(volume->stats());
    return out;
}

template <class Unit>
Value in_units(Duration duration) {
    return number(static_cast<std::uint64_t>(std::chrono::duration_cast<Unit>(duration).count()));
}

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// The four files of each thing that is timed.
constexpr Attribute timing(std::string_view name, std::string_view unit, std::string_view meaning,
                           Get get) {
    return fact(name, Scope::set, Format::decimal, unit, meaning, get);
}

std::string known_features(std::uint64_t word) {
    constexpr std::uint64_t kLargeBucket = 2;
    return (word & kLargeBucket) != 0 ? "[large_bucket]" : "large_bucket";
}

Task<Result<void>> stop_set(Target t, Value) {
    co_return t.host->begin_stop(false);
}
Task<Result<void>> unregister_set(Target t, Value) {
    co_return t.host->begin_stop(true);
}
Task<Result<void>> trigger_gc(Target t, Value) {
    co_return t.host->begin_garbage_collection();
}
Task<Result<void>> clear_set_stats(Target t, Value) {
    t.host->clear_stats(nullptr);
    co_return Result<void>();
}
Task<Result<void>> create_volume(Target t, Value value) {
    const std::optional<std::uint64_t> bytes = parse_size(value.text);
    if (!bytes || *bytes < kSectorBytes)
        co_return fail(Errc::invalid, "not a size; write e.g. 10G");
    co_return co_await t.host->create_volume(*bytes);
}
Task<Result<void>> store_replacement(Target t, Value value) {
    const auto policy = static_cast<ondisk::Replacement>(value.number);
    co_return co_await t.set->set_replacement(policy);
}

const Attribute kSet[] = {
    fact("average_key_size", Scope::set, Format::human, "bytes",
         "mean length of an extent, as the last garbage collection saw it",
         [](const Target& t) {
             const core::SetStats s = stats(t);
             return number(s.gc_extents == 0 ? 0 : s.gc_extent_sectors * kSectorBytes / s.gc_extents);
         }),
    fact("block_size", Scope::set, Format::human, "bytes", "smallest unit of cached data",
         [](const Target& t) { return number(t.set->superblock().block_size * kSectorBytes); }),
    fact("bucket_size", Scope::set, Format::human, "bytes", "unit of allocation and eviction",
         [](const Target& t) {
             return number(t.set->superblock().bucket_sectors() * kSectorBytes);
         }),
    fact("btree_cache_size", Scope::set, Format::human, "bytes", "memory that the index takes",
         [](const Target& t) { return number(t.set->btree_cache_bytes()); }),
    fact("cache_available_percent", Scope::set, Format::decimal, "percent",
         "buckets without dirty data and metadata",
         [](const Target& t) { return number(100 - std::min(100u, t.set->in_use_percent())); }),
    fact("congested", Scope::set, Format::human, "bytes",
         "runs of at least this length bypass the cache now, because it is slow; 0 = none",
         [](const Target& t) { return number(stats(t).congested_sectors * kSectorBytes); }),
    fact("root_usage_percent", Scope::set, Format::decimal, "percent",
         "how full the root of the index is",
         [](const Target& t) { return number(t.set->root_usage_percent()); }),
    fact("tree_depth", Scope::set, Format::decimal, "", "levels of the index below its root",
         [](const Target& t) { return number(t.set->tree_depth()); }),
    fact("synchronous", Scope::set, Format::decimal, "", "1: the set is recovered when opened",
         [](const Target& t) { return number(t.set->superblock().sync() ? 1 : 0); }),
    setting(
        fact("congested_read_threshold_us", Scope::set, Format::decimal, "microseconds",
             "a cache read that takes longer counts as congestion; 0 = never",
             [](const Target& t) { return number(t.set->options().congested_read_threshold_us); }),
        {0, kMax32}, "2000",
        [](const Target& t, std::uint64_t n) {
            t.set->options().congested_read_threshold_us = narrow(n);
        }),
    setting(
        fact("congested_write_threshold_us", Scope::set, Format::decimal, "microseconds",
             "a cache write that takes longer counts as congestion; 0 = never",
             [](const Target& t) { return number(t.set->options().congested_write_threshold_us); }),
        {0, kMax32}, "20000",
        [](const Target& t, std::uint64_t n) {
            t.set->options().congested_write_threshold_us = narrow(n);
        }),
    setting(
        fact("journal_delay_ms", Scope::set, Format::decimal, "milliseconds",
             "how long a journal entry that nobody waits for may gather keys",
             [](const Target& t) { return number(t.set->options().journal_delay_ms); }),
        {0, 65535}, "100",
        [](const Target& t, std::uint64_t n) { t.set->options().journal_delay_ms = narrow(n); }),
    setting(
        fact("cache_grace", Scope::set, Format::decimal, "seconds",
             "how long requests wait for a device that is gone (not in the kernel)",
             [](const Target& t) { return number(t.set->options().cache_grace_s); }),
        {0, 86400}, "30",
        [](const Target& t, std::uint64_t n) { t.set->options().cache_grace_s = narrow(n); }),
    command("flash_vol_create", Scope::set, "a size: creates a volume on the cache device alone",
            create_volume),
    command("clear_stats", Scope::set, "begins stats_total of the set anew", clear_set_stats),
    command("stop", Scope::set, "ends the daemon in an orderly way", stop_set),
    command("unregister", Scope::set, "detaches all volumes, then ends the daemon", unregister_set),

    fact("internal/active_journal_entries", Scope::set, Format::decimal, "",
         "journal entries that a recovery would need",
         [](const Target& t) { return number(stats(t).active_journal_entries); }),
    fact("internal/btree_nodes", Scope::set, Format::decimal, "",
         "nodes of the index at the last garbage collection",
         [](const Target& t) { return number(stats(t).gc_nodes); }),
    fact("internal/btree_used_percent", Scope::set, Format::decimal, "percent",
         "how full those nodes were",
         [](const Target& t) {
             const core::SetStats s = stats(t);
             const ondisk::Geometry geometry{
                 .bucket_sectors = static_cast<std::uint32_t>(t.set->superblock().bucket_sectors())};
             const std::uint64_t room = s.gc_nodes * geometry.node_sectors() * kSectorBytes;
             return number(room == 0 ? 0 : s.gc_key_bytes * 100 / room);
         }),
    timing("internal/btree_gc_average_frequency_sec", "seconds", "between garbage collections",
           [](const Target& t) { return in_units<seconds>(stats(t).gc_times.average_interval); }),
    timing("internal/btree_gc_average_duration_ms", "milliseconds", "of a garbage collection",
           [](const Target& t) {
               return in_units<milliseconds>(stats(t).gc_times.average_duration);
           }),
    timing("internal/btree_gc_max_duration_ms", "milliseconds", "of a garbage collection",
           [](const Target& t) { return in_units<milliseconds>(stats(t).gc_times.max_duration); }),
    timing("internal/btree_split_average_frequency_sec", "seconds", "between splits of leaves",
           [](const Target& t) { return in_units<seconds>(stats(t).split_times.average_interval); }),
    timing("internal/btree_split_average_duration_us", "microseconds", "of a split of a leaf",
           [](const Target& t) {
               return in_units<microseconds>(stats(t).split_times.average_duration);
           }),
    timing("internal/btree_split_max_duration_us", "microseconds", "of a split of a leaf",
           [](const Target& t) {
               return in_units<microseconds>(stats(t).split_times.max_duration);
           }),
    timing("internal/btree_read_average_frequency_ms", "milliseconds", "between reads of nodes",
           [](const Target& t) {
               return in_units<milliseconds>(stats(t).node_read_times.average_interval);
           }),
    timing("internal/btree_read_average_duration_us", "microseconds", "of a read of a node",
           [](const Target& t) {
               return in_units<microseconds>(stats(t).node_read_times.average_duration);
           }),
    timing("internal/btree_read_max_duration_us", "microseconds", "of a read of a node",
           [](const Target& t) {
               return in_units<microseconds>(stats(t).node_read_times.max_duration);
           }),
    fact("internal/cache_read_races", Scope::set, Format::decimal, "",
         "reads that began anew because their bucket was reused meanwhile",
         [](const Target& t) {
             return number(sum(t, [](const core::VolumeStats& s) { return s.cache_read_races; }));
         }),
    fact("internal/reclaim", Scope::set, Format::decimal, "",
         "times that leaves were written to free space in the journal",
         [](const Target& t) { return number(stats(t).journal_reclaims); }),
    fact("internal/writeback_keys_done", Scope::set, Format::decimal, "", "extents written back",
         [](const Target& t) {
             return number(sum(t, [](const core::VolumeStats& s) { return s.writeback_keys_done; }));
         }),
    fact("internal/writeback_keys_failed", Scope::set, Format::decimal, "",
         "extents whose write-back failed and is tried again",
         [](const Target& t) {
             return number(
                 sum(t, [](const core::VolumeStats& s) { return s.writeback_keys_failed; }));
         }),
    fact("internal/cutoff_writeback", Scope::set, Format::decimal, "percent",
         "of buckets in use above which only synchronous writes become dirty",
         [](const Target& t) { return number(t.set->options().cutoff_writeback); }),
    fact("internal/cutoff_writeback_sync", Scope::set, Format::decimal, "percent",
         "of buckets in use above which nothing becomes dirty",
         [](const Target& t) { return number(t.set->options().cutoff_writeback_sync); }),
    fact("internal/feature_compat", Scope::set, Format::text, "", "compatible features: none",
         [](const Target&) { return text(""); }),
    fact("internal/feature_ro_compat", Scope::set, Format::text, "",
         "features that only writers must know: none", [](const Target&) { return text(""); }),
    fact("internal/feature_incompat", Scope::set, Format::text, "",
         "features that whoever opens the set must know; active ones in brackets",
         [](const Target& t) { return text(known_features(t.set->superblock().feature_incompat)); }),
    setting(
        fact("internal/idle_max_writeback_rate", Scope::set, Format::decimal, "",
             "1: write-back has no limit while nobody uses the set",
             [](const Target& t) {
                 return number(t.set->options().idle_max_writeback_rate ? 1 : 0);
             }),
        {0, 1}, "1",
        [](const Target& t, std::uint64_t n) {
            t.set->options().idle_max_writeback_rate = n != 0;
        }),
    command("internal/trigger_gc", Scope::set, "begins a garbage collection", trigger_gc),
};

Value priority_stats(const Target& t) {
    const core::BucketSurvey s = t.set->survey();
    return text(
        fmt::format("Unused:\t\t{}%\nClean:\t\t{}%\nDirty:\t\t{}%\nMetadata:\t{}%\n"
                    "Average:\t{}\nSectors per Q:\t{}\nQuantiles:\t[{}]",
                    s.unused_percent, s.clean_percent, s.dirty_percent, s.metadata_percent,
                    s.average_age, s.sectors_per_quantile, fmt::join(s.ages, " ")));
}

const Attribute kCache[] = {
    fact("block_size", Scope::cache, Format::human, "bytes", "smallest unit of cached data",
         [](const Target& t) { return number(t.set->superblock().block_size * kSectorBytes); }),
    fact("bucket_size", Scope::cache, Format::human, "bytes", "unit of allocation and eviction",
         [](const Target& t) {
             return number(t.set->superblock().bucket_sectors() * kSectorBytes);
         }),
    fact("nbuckets", Scope::cache, Format::decimal, "", "buckets of the cache device",
         [](const Target& t) { return number(t.set->superblock().nbuckets_or_offset); }),
    fact("discard", Scope::cache, Format::decimal, "",
         "the superblock's flag; 1: freed buckets are discarded",
         [](const Target& t) { return number(t.set->superblock().discard() ? 1 : 0); }),
    fact("io_errors", Scope::cache, Format::decimal, "", "I/O errors of the cache device",
         [](const Target& t) { return number(stats(t).cache_io_errors); }),
    fact("written", Scope::cache, Format::human, "bytes", "data written to the cache device",
         [](const Target& t) { return number(stats(t).written_sectors * kSectorBytes); }),
    fact("btree_written", Scope::cache, Format::human, "bytes", "nodes of the index written",
         [](const Target& t) { return number(stats(t).btree_written_sectors * kSectorBytes); }),
    fact("metadata_written", Scope::cache, Format::human, "bytes",
         "journal and priority table written",
         [](const Target& t) { return number(stats(t).metadata_written_sectors * kSectorBytes); }),
    fact("priority_stats", Scope::cache, Format::text, "",
         "what the buckets hold, and how old it is", priority_stats),
    [] {
        Attribute out =
            fact("cache_replacement_policy", Scope::cache, Format::choice, "",
                 "which bucket is evicted; stored on the cache device", [](const Target& t) {
                     return number(static_cast<std::uint64_t>(t.set->superblock().replacement()));
                 });
        out.store = store_replacement;
        out.choices = kPolicies;
        return out;
    }(),
};

}  // namespace

std::span<const Attribute> of_set() {
    return kSet;
}
std::span<const Attribute> of_cache() {
    return kCache;
}

}  // namespace uc::admin::table
