// Writes dirty data of one volume back to its backing device.
//
// A batch:  choose dirty extents in ascending order; join neighbours into runs
//   ->      per run: hold its range against other writes to the backing device, look again whether
//   it is
//           still dirty, read it from the cache, write it to backing
//   ->      flush the backing device once (weakness 11.3)
//   ->      clear DIRTY where the extent is still the one that was written (compare and exchange),
//   through
//           the journal like every change
// A write that comes meanwhile goes to the cache under another pointer, so the comparison fails and
// its data stay dirty. One that goes to the backing device instead and fails there leaves the dirty
// key, but what the batch wrote may be gone: it is told by spoil(), and the key stays dirty.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/bucket_table.h"
#include "async/range_lock.h"
#include "async/sync.h"
#include "async/task.h"
#include "base/mutations.h"
#include "base/result.h"
#include "index/tree.h"
#include "io/block_device.h"
#include "io/clock.h"
#include "policy/writeback_rate.h"

namespace uc::writeback {

struct Knobs {
    bool running = true;
    std::uint32_t delay_s = 30;
    bool paced = true;  // false: as fast as it goes (writeback_percent 0)
};

struct Counters {
    std::uint64_t keys_done = 0, keys_failed = 0, sectors = 0;
};

// Why dirty data stay dirty.
struct Trouble {
    Error error;
    bool of_cache = false;  // its doing, not the backing device's
};

struct Parts {
    async::Executor& executor;
    io::Clock& clock;
    io::BlockDevice& cache;
    io::BlockDevice& backing;
    index::Tree& tree;
    alloc::BucketTable& table;
    alloc::Allocator& allocator;
    async::RangeLock& backing_writes;
    const Inode& inode;  // changes when the volume is attached anew
    policy::WritebackRate& rate;
    const Mutations& mutations;
    // Waits until every dirty key of the volume so far is durable.
    std::function<Task<Result<void>>()> flush_keys;
    // Flushes the backing device and accounts for it.
    std::function<Task<Result<void>>()> flush_backing;
    // How many flushes of it have failed, whoever asked for them.
    std::function<std::uint64_t()> flush_failures;
    // Tells that sectors were written to backing and are not flushed yet.
    std::function<void(std::uint64_t from, std::uint64_t to)> wrote_backing;
    // A batch has failed.
    std::function<void()> failed;
    // A device has refused what write-back asked of it.
    std::function<void(const Trouble&)> refused;
    // trouble() is another than before.
    std::function<void()> trouble_changed;
    std::function<Knobs()> knobs;
};

class Writeback {
public:
    explicit Writeback(Parts parts);
    Writeback(const Writeback&) = delete;
    Writeback& operator=(const Writeback&) = delete;

    void run(async::TaskGroup& group);
    void stop();
    // Dirty data appeared or knobs changed.
    void kick() { wake_.notify(); }
    // Sectors [from, to) of the backing device were changed by a write that failed half-way: what
    // the batch under way wrote there may not be there any more.
    void spoil(std::uint64_t from, std::uint64_t to) { spoiled_.emplace_back(from, to); }
    // Full speed until nothing is dirty, or until an error makes that impossible.
    Task<Result<void>> drain();

    const Counters& counters() const { return counters_; }
    // The last error, until a whole round over the dirty data went well.
    const std::optional<Trouble>& trouble() const { return trouble_; }

private:
    struct Run {
        std::uint64_t from = 0, to = 0;
        std::vector<ondisk::Key> extents;  // ascending, contiguous
        bool written = false;
        std::optional<Trouble> trouble;
    };

    bool dirty() const { return parts_.table.dirty_sectors(parts_.inode) != 0; }
    bool hurried() const { return draining_ != 0; }
    Task<void> loop();
    Task<Result<std::uint64_t>> batch(std::uint64_t max_sectors);
    Task<Result<void>> choose(std::uint64_t max_sectors, std::vector<Run>& runs);
    Task<void> write_run(Run& run, async::Semaphore& slots);
    Task<Result<void>> copy_run(Run& run);
    Task<Result<void>> copy_extents(Run& run, std::span<std::byte> data);
    Task<Result<void>> flush_batch(std::uint64_t failures);
    void refuse(const Trouble& trouble);
    void round_ended();
    Task<Result<void>> mark_clean(const std::vector<Run>& runs);
    Task<void> pace(std::uint64_t sectors);
    bool spoiled(const ondisk::Key& key) const;

    Parts parts_;
    async::Event wake_;
    async::Mutex one_batch_;
    std::uint64_t cursor_ = 0;  // sector on the backing device
    bool wrapped_ = false;
    std::uint32_t draining_ = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> spoiled_;  // since the batch began
    bool stopping_ = false;
    Counters counters_;
    std::optional<Trouble> trouble_;
    bool failed_in_round_ = false;
};

}  // namespace uc::writeback
