// What a run, or a whole campaign, really did. A class of events that never happened was not
// tested, whatever the seeds say.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace uc::sim {

// name, what is counted
#define UC_SEEN_LIST(X)                                                      \
    X(runs, "runs")                                                          \
    X(steady_runs, "runs on a set that outlives outages")                    \
    X(power_cuts, "power cuts")                                              \
    X(process_deaths, "process deaths")                                      \
    X(orderly_stops, "orderly stops")                                        \
    X(deaths_while_opening, "deaths while opening")                          \
    X(replayed, "openings that replayed keys")                               \
    X(reads, "reads")                                                        \
    X(writes, "writes")                                                      \
    X(flushes, "flushes")                                                    \
    X(forced_writes, "FUA writes")                                           \
    X(discards, "discards")                                                  \
    X(zeroes, "zeroes")                                                      \
    X(overlaps, "writes over a range in flight")                             \
    X(cache_hits, "hits")                                                    \
    X(filled, "sectors filled")                                              \
    X(collisions, "fills that lost against a write")                         \
    X(read_races, "buckets reused during a read")                            \
    X(written_back, "sectors written back")                                  \
    X(bypass_mode, "bypassed: mode")                                         \
    X(bypass_sequential, "bypassed: sequential")                             \
    X(bypass_congested, "bypassed: congested")                               \
    X(bypass_unaligned, "bypassed: unaligned")                               \
    X(bypass_full, "bypassed: cache full of dirty data")                     \
    X(bypass_detaching, "bypassed: detaching")                               \
    X(bypass_no_bucket, "bypassed: no bucket")                               \
    X(bypass_no_set, "bypassed: no set")                                     \
    X(buckets_reused, "buckets reused")                                      \
    X(tables, "priority tables written")                                     \
    X(gen_wraps, "generations that wrapped")                                 \
    X(splits, "node splits")                                                 \
    X(merges, "node merges")                                                 \
    X(root_splits, "root splits")                                            \
    X(depth_1, "lives that reached tree depth 1")                            \
    X(depth_2, "lives that reached tree depth 2")                            \
    X(collections, "garbage collections")                                    \
    X(entries, "journal entries")                                            \
    X(journal_wraps, "journal wraps")                                        \
    X(mode_changes, "changes of the cache mode")                             \
    X(detaches, "detaches")                                                  \
    X(reattaches, "attached again")                                          \
    X(flash_volumes, "lives with a flash-only volume")                       \
    X(several_backings, "lives with several backing devices")                \
    X(full_caches, "lives that reused more buckets than the cache has")      \
    X(errors, "I/O errors injected")                                         \
    X(flush_errors, "flushes that failed, dropping data")                    \
    X(flips, "bits flipped in what was read")                                \
    X(storms, "latency storms")                                              \
    X(hangs, "devices that hung")                                            \
    X(request_errors, "errors that users saw")                               \
    X(survived, "lives that went on after faults")                           \
    X(cache_outages, "cache outages")                                        \
    X(older_copies, "older copies offered and refused")                      \
    X(cache_returns, "cache devices back in service")                        \
    X(losses_told, "flushes that told of lost writes")                       \
    X(lost_reads, "reads refused where a write was lost")                    \
    X(backing_outages, "backing outages")                                    \
    X(backing_losses, "backing devices that lost unflushed data while away") \
    X(damage_refused, "damaged sets refused, not a byte written")            \
    X(damage_survived, "damaged sets opened without a lie")

enum class Seen : std::uint8_t {
#define UC_SEEN(name, what) name,
    UC_SEEN_LIST(UC_SEEN)
#undef UC_SEEN
        count_,
};
inline constexpr std::size_t kSeen = static_cast<std::size_t>(Seen::count_);

const char* text_of(Seen seen);

class Coverage {
public:
    void add(Seen seen, std::uint64_t times = 1) {
        counts_[static_cast<std::size_t>(seen)] += times;
    }
    std::uint64_t count(Seen seen) const { return counts_[static_cast<std::size_t>(seen)]; }
    void merge(const Coverage& other);
    // One line per class.
    std::string table() const;

private:
    std::array<std::uint64_t, kSeen> counts_{};
};

}  // namespace uc::sim
