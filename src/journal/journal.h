// The journal (format section 4): a ring of entries that hold the roots of everything and the keys
// that may not yet be in leaves on disk.
//
// Unlike the kernel every index change is journalled (fills and cleared dirty bits too), so replay
// rebuilds exactly the order of insertion, and a bucket that an entry shows as free is free in
// every state that a crash can leave (docs/decisions/0003-journal-everything.md).
//
// Order of writes, enforced here:
//  * I1: cache data, node, uuid, priority writes that completed before an entry is submitted are
//  durable
//    before it is (the entry is written after a flush of the device, with FUA);
//  * one entry is in flight at a time, so only the last can be torn;
//  * I16: a ring slot is reused only if its highest seq is below the last_seq of an entry already
//  durable
//    (4.3; better than weakness 11.6); last_seq never decreases;
//  * at least one free slot is kept back for entries without keys (new root, new priority table),
//  so
//    that reclaim can always make progress (11.14).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "async/sync.h"
#include "async/task.h"
#include "base/mutations.h"
#include "base/result.h"
#include "base/units.h"
#include "io/block_device.h"
#include "io/buffer.h"
#include "io/clock.h"
#include "journal/ring.h"
#include "ondisk/geometry.h"
#include "ondisk/jset.h"
#include "ondisk/key.h"

namespace uc::journal {

// Entries that a recovery may need at most; the kernel can recover 32767.
inline constexpr JournalSeq kMaxNeededEntries = 8192;

// What a ring holds (section 4.7, 4.8). Reads every slot: at most 256, in large reads, several at
// once.
struct Recovered {
    std::vector<ondisk::Jset> entries;    // the needed ones, ascending, without gap; newest last
    std::vector<JournalSeq> slot_newest;  // highest seq found in each ring slot; 0 = none
    std::uint32_t newest_slot = 0;
    std::uint32_t newest_end_block = 0;  // first block behind the newest entry in its slot
    std::string problem;                 // on Errc::corrupt: the line for the user
};
// Errors: Errc::corrupt ("no journal entries found", "journal entries a-b missing! (replaying
// c-d)"), Errc::io. `discard`: a gap at the beginning of the needed range is tolerated (4.8).
Task<Result<void>> read_ring(io::BlockDevice& cache, const ondisk::Geometry& geometry,
                             std::uint64_t set_magic, bool discard, Recovered& out,
                             Mutations mutations = {});

// The roots that every entry repeats.
struct Roots {
    ondisk::Key uuid_bucket;
    ondisk::Key btree_root;
    std::uint16_t btree_level = 0;
    std::uint64_t prio_bucket = 0;
};

struct JournalStats {
    std::uint64_t writes = 0, keys = 0, written_sectors = 0, reclaims = 0;
};

class Journal {
public:
    Journal(async::Executor& executor, io::Clock& clock, io::BlockDevice& cache,
            const ondisk::Geometry& geometry, std::uint64_t set_magic,
            const std::uint32_t& delay_ms);
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;

    // Blank set: the first entry gets seq 1 in slot 1. The caller has zeroed the journal buckets'
    // first blocks (13.4).
    void start_blank(const Roots& roots);
    // After recovery: the next entry is newest + 1 at the start of the next slot. Every recovered
    // entry starts with one pin held by the caller (recovery), which it drops with unpin() once its
    // keys are pinned by leaves.
    void start_recovered(const Recovered& recovered, const Roots& roots);
    // Spawns the writer into `group`.
    void run(async::TaskGroup& group);
    // Lets the writer end after everything queued is written. Await the group afterwards.
    void stop();

    // Adds keys, in order, to the open entry, opening another one when they do not fit (at most
    // max_keys() per call). Never suspends. Returns the entry's seq. The entry is written
    // after journal_delay_ms at the latest.
    JournalSeq append(std::span<const ondisk::Key> keys);
    // What fits into one entry: (32768 - 240) / 24, less if the journal buckets are smaller.
    std::size_t max_keys() const;
    // The seq that append() would use now, or a later one.
    JournalSeq open_seq() const { return open_.jset.seq; }
    JournalSeq durable_seq() const { return durable_seq_; }

    // Back-pressure: returns when keys may be appended without using up the reserve. Call before
    // append() for foreground work; the room is not reserved, only likely. Errc::gone after a
    // failure.
    Task<Result<void>> wait_room();
    bool has_room() const;

    // Waits until every entry up to and including `seq` is durable; writes at once. `seq` may be
    // the open one (an entry without keys is written if need be). Errc::gone after a failed write.
    Task<Result<void>> flush(JournalSeq seq);
    // Changes a root for the next entry; flush(open_seq()) makes it durable. The uncommitted part
    // of a change must not be visible earlier: call when the thing it points to is completely
    // written.
    void set_btree_root(const ondisk::Key& key, std::uint16_t level);
    void set_uuid_bucket(const ondisk::Key& key);
    void set_prio_bucket(std::uint64_t bucket);
    const Roots& roots() const { return roots_; }

    // Pins: an entry with pins keeps its place in the ring and holds last_seq back.
    void pin(JournalSeq seq);
    void unpin(JournalSeq seq);
    JournalSeq oldest_pinned() const;  // open_seq() if none is pinned

    // Reclaim: when the ring runs short, `need` is called with a seq: leaves that pin entries up to
    // it should be written soon. May be called repeatedly.
    void on_pressure(std::function<void(JournalSeq)> need) { need_ = std::move(need); }

    // Flushes the cache device. When that has failed once the device may have dropped what a later
    // flush would call durable: the journal fails, and every flush from then on (Errc::gone).
    Task<Result<void>> flush_device();
    // The set has failed elsewhere: as if a write had failed.
    void give_up() {
        fail_journal();
        wake_.notify();
    }

    // Called once, when the journal fails.
    void on_failure(std::function<void()> tell) { failure_ = std::move(tell); }
    // The newest entry that is durable, in the numbers on the device.
    JournalSeq newest_entry() const { return durable_on_disk_; }

    // Not ok: a write failed; the journal refuses everything from then on.
    bool failed() const { return failed_; }
    const JournalStats& stats() const { return stats_; }

    // Only for tests that must fail.
    void mutate(Mutations mutations) { mutations_ = mutations; }

private:
    struct Pending {
        ondisk::Jset jset;      // seq and keys; the header is filled when it is sealed
        std::size_t words = 0;  // in keys
    };
    // An entry without keys was put before the queue: what had the numbers [first, last] then is
    // one higher now (see writer.cc).
    struct Shift {
        JournalSeq first = 0;
        JournalSeq last = 0;
    };
    enum class Step : std::uint8_t { write, advance, flush_only, blocked, idle, end };

    void start(const Roots& roots, JournalSeq next_seq, JournalSeq last_seq);
    void close_open();
    void notify_writer();
    void fail_journal();
    std::uint32_t blocks_of(const Pending& entry) const;
    const Pending& head() const { return closed_.empty() ? open_ : closed_.front(); }
    JournalSeq last_seq_for(JournalSeq seq) const { return std::min(oldest_pinned(), seq); }
    // `entry` fits now, and once it is durable `least` blocks are free.
    bool leaves_free(const Pending& entry, std::uint64_t least) const;

    // writer.cc
    Task<void> write_entries();
    Task<void> write_next(bool advance);
    Task<void> flush_without_entry();
    Step next_step() const;
    bool write_due() const;
    bool can_advance() const;
    std::uint64_t seal(bool advance);
    void take_head();
    void shift_queue();
    void entry_durable();
    void ask_for_room(bool stuck);
    JournalSeq actual_seq(JournalSeq seq) const;

    io::Clock& clock_;
    io::BlockDevice& cache_;
    const ondisk::Geometry geometry_;
    const std::uint64_t set_magic_;
    const std::uint32_t& delay_ms_;
    const std::uint32_t limit_blocks_;    // largest entry
    const std::uint64_t reserve_blocks_;  // kept for entries that reclaim itself needs

    Ring ring_;
    Roots roots_;
    bool roots_changed_ = false;  // since the last sealed entry
    Pending open_;
    Instant open_due_{};          // valid if the open entry has keys
    std::deque<Pending> closed_;  // await writing, ascending
    Pending sealed_;              // in flight
    io::Buffer buffer_;           // its bytes
    std::size_t sealed_bytes_ = 0;

    std::deque<std::uint32_t> pins_;  // of entry pins_base_ + i; the first is not 0
    JournalSeq pins_base_ = 0;

    JournalSeq last_seq_ = 1;          // of the newest sealed entry
    JournalSeq durable_last_seq_ = 1;  // of the newest durable entry
    JournalSeq durable_on_disk_ = 0;   // newest durable entry
    JournalSeq durable_seq_ = 0;       // the same in the callers' numbers
    std::vector<Shift> shifts_;
    std::uint32_t free_slots_ = 0;  // with respect to durable_last_seq_

    JournalSeq flush_target_ = 0;
    std::uint64_t flush_tickets_ = 0;    // calls of flush()
    std::uint64_t flushed_tickets_ = 0;  // of these, satisfied by a flush without an entry
    std::uint64_t changes_ = 0;          // counts notify_writer()
    JournalSeq asked_ = 0;               // last argument of need_
    bool blocked_ = false;
    bool stopping_ = false;
    bool ended_ = false;
    bool failed_ = false;
    async::Event wake_;             // the writer waits
    async::Event durable_changed_;  // flush() waits
    mutable async::Event room_;     // wait_room() waits
    JournalStats stats_;
    Mutations mutations_;
    std::function<void(JournalSeq)> need_;
    std::function<void()> failure_;
};

}  // namespace uc::journal
