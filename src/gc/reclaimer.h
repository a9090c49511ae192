// Makes buckets ready for reuse, in the background and before they are needed.
//
// One pass: choose victims; increment their generations in memory (their clean data is gone from
// now on); write the whole priority table to free buckets; write a journal entry that points at it;
// only then hand the victims to the allocator (I10, format 3.8). That entry follows, in the
// journal, every entry that the accounts were computed from, so no crash can bring back a dirty key
// into a reused bucket (6.3).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/bucket_table.h"
#include "async/sync.h"
#include "async/task.h"
#include "base/mutations.h"
#include "base/result.h"
#include "base/rng.h"
#include "io/block_device.h"
#include "io/clock.h"
#include "journal/journal.h"
#include "ondisk/superblock.h"
#include "policy/eviction.h"

namespace uc::gc {

struct ReclaimParts {
    async::Executor& executor;
    io::Clock& clock;
    Rng& rng;
    io::BlockDevice& cache;
    alloc::BucketTable& table;
    alloc::Allocator& allocator;
    journal::Journal& journal;
    std::uint64_t set_magic;
    const ondisk::Superblock& superblock;  // for the replacement policy
    const Mutations& mutations;
};

class Reclaimer {
public:
    // `members`: the buckets of the present table; empty on a blank set.
    Reclaimer(const ReclaimParts& parts, std::vector<BucketIndex> members);
    Reclaimer(const Reclaimer&) = delete;
    Reclaimer& operator=(const Reclaimer&) = delete;

    // Called when generations stand in the way: garbage collection should run.
    void on_starved(std::function<void()> starved) { starved_ = std::move(starved); }
    void run(async::TaskGroup& group);
    void stop();

    // Puts a new table in the place of one that could not be read; durable when it returns. Before
    // run(): the buckets for it are all that may be ready.
    Task<Result<void>> replace_table();
    // Writes the table to new buckets; not durable and not pointed at yet. For a blank set and for
    // passes.
    Task<Result<BucketIndex>> write_table();

    std::uint64_t table_writes() const { return table_writes_; }
    std::uint64_t table_sectors() const { return table_sectors_; }
    std::uint64_t invalidated() const { return invalidated_; }
    // Not ok: a table write or its journal entry failed.
    bool failed() const { return failed_; }

private:
    Task<void> loop();
    Task<Result<void>> pass(std::uint64_t wanted);
    // Writes their new generations, then releases them.
    Task<Result<void>> make_ready(std::vector<BucketIndex>& victims);
    Task<void> choose(std::uint64_t wanted, std::vector<BucketIndex>& victims);
    void choose_fifo(std::uint64_t wanted, std::vector<BucketIndex>& victims);
    void choose_random(std::uint64_t wanted, std::vector<BucketIndex>& victims);
    Task<Result<void>> make_durable();
    void invalidate(std::vector<BucketIndex>& victims);
    Task<void> discard(std::vector<BucketIndex>& victims);

    ReclaimParts parts_;
    std::vector<BucketIndex> members_;
    policy::FifoCursor fifo_;
    std::uint64_t seq_ = 0;
    std::function<void()> starved_;
    bool stopping_ = false;
    bool failed_ = false;
    std::uint64_t table_writes_ = 0, table_sectors_ = 0, invalidated_ = 0, discards_failed_ = 0;
};

}  // namespace uc::gc
