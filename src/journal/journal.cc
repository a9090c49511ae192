// State of the journal: the open entry, pins, roots, and the rule that says when there is room.
//
// Keys are collected in the open entry; a full one joins the queue of closed entries. Each entry
// has its number from the moment it is opened, and all numbers reach the disk, so there is never a
// gap.
//
// Pins. A leaf with keys that are not on disk pins the oldest entry that contributed any of them.
// The last_seq of an entry is the oldest pinned one (or itself) at the moment when it is sealed. It
// never decreases, because a pin may be taken only on an entry that is not below the last_seq
// already sealed.
//
// Reserve. Reclaim itself may need entries: a new root, a new priority table. They have no keys and
// take one block each. So has_room() answers yes only if everything queued, plus a full open entry,
// leaves a reserve. With three slots or more it is one whole slot and some blocks: then the slot
// behind the current one is free after a crash, where the next entry must go. With two slots it is
// the size of the largest entry. With nothing pinned has_room() is always true in the end, because
// then an entry frees every slot but its own.
#include "journal/journal.h"

#include <utility>

#include "base/check.h"

namespace uc::journal {

namespace {

constexpr std::size_t kHeaderBytes = sizeof(ondisk::JsetHeader);
constexpr std::size_t kWordBytes = 8;
std::uint32_t largest_entry_blocks(const ondisk::Geometry& geometry) {
    const std::uint64_t bucket_bytes = std::uint64_t{geometry.bucket_sectors} * kSectorBytes;
    const std::uint64_t bytes = std::min<std::uint64_t>(ondisk::kJsetMaxBytes, bucket_bytes);
    return static_cast<std::uint32_t>(bytes / geometry.block_bytes());
}

std::uint32_t slot_blocks(const ondisk::Geometry& geometry) {
    return geometry.bucket_sectors / geometry.block_sectors;
}

std::uint64_t reserve_for(const ondisk::Geometry& geometry) {
    if (geometry.njournal <= 2) return largest_entry_blocks(geometry);
    const std::uint64_t slot = slot_blocks(geometry);
    return slot + std::min<std::uint64_t>(slot / 2, 8);
}

}  // namespace

Journal::Journal(async::Executor&, io::Clock& clock, io::BlockDevice& cache,
                 const ondisk::Geometry& geometry, std::uint64_t set_magic,
                 const std::uint32_t& delay_ms)
    : clock_(clock),
      cache_(cache),
      geometry_(geometry),
      set_magic_(set_magic),
      delay_ms_(delay_ms),
      limit_blocks_(largest_entry_blocks(geometry)),
      reserve_blocks_(reserve_for(geometry)),
      ring_(geometry.njournal, slot_blocks(geometry)),
      buffer_(std::size_t{limit_blocks_} * geometry.block_bytes()) {}

void Journal::start_blank(const Roots& roots) {
    // As if slot 0 had been filled: the first entry goes into slot 1, as the kernel does it.
    start(roots, 1, 1);
}

void Journal::start_recovered(const Recovered& recovered, const Roots& roots) {
    CHECK(!recovered.entries.empty());
    const ondisk::Jset& newest = recovered.entries.back();
    start(roots, newest.seq + 1, newest.last_seq);
    durable_on_disk_ = durable_seq_ = newest.seq;
    pins_base_ = recovered.entries.front().seq;
    pins_.assign(recovered.entries.size(), 1);

    // The rest of the slot is left alone and the next slot begun, as the kernel does it. Only if a
    // crash came when the reserve was used up, that slot is still needed; then what follows the
    // newest entry here is at most a torn one, which the next entry, with the same number,
    // overwrites.
    ring_.stand_at(recovered.newest_slot, ring_.slot_blocks(), recovered.slot_newest);
    if (ring_.free_slots(durable_last_seq_) == 0) {
        ring_.stand_at(recovered.newest_slot, recovered.newest_end_block, recovered.slot_newest);
    }
    free_slots_ = ring_.free_slots(durable_last_seq_);
}

void Journal::start(const Roots& roots, JournalSeq next_seq, JournalSeq last_seq) {
    CHECK(open_.jset.seq == 0);
    roots_ = roots;
    open_.jset.seq = next_seq;
    last_seq_ = durable_last_seq_ = last_seq;
    free_slots_ = ring_.free_slots(last_seq);
}

void Journal::run(async::TaskGroup& group) {
    group.spawn(write_entries());
}

void Journal::stop() {
    stopping_ = true;
    notify_writer();
}

std::size_t Journal::max_keys() const {
    return (buffer_.size() - kHeaderBytes) / ondisk::kKeyMaxBytes;
}

std::uint32_t Journal::blocks_of(const Pending& entry) const {
    return geometry_.blocks(kHeaderBytes + kWordBytes * entry.words);
}

JournalSeq Journal::append(std::span<const ondisk::Key> keys) {
    CHECK(open_.jset.seq != 0);
    if (failed_) return open_seq();  // nobody can wait for it successfully
    std::size_t words = 0;
    for (const ondisk::Key& key : keys) words += key.words();
    CHECK(kHeaderBytes + kWordBytes * words <= buffer_.size());
    if (kHeaderBytes + kWordBytes * (open_.words + words) > buffer_.size()) close_open();
    if (open_.words == 0 && words != 0) {
        open_due_ = clock_.now() + std::chrono::milliseconds(delay_ms_);
        notify_writer();
    }
    open_.jset.keys.insert(open_.jset.keys.end(), keys.begin(), keys.end());
    open_.words += words;
    stats_.keys += keys.size();
    return open_seq();
}

void Journal::close_open() {
    Pending next;
    next.jset.seq = open_seq() + 1;
    closed_.push_back(std::exchange(open_, std::move(next)));
    notify_writer();
}

bool Journal::leaves_free(const Pending& entry, std::uint64_t least) const {
    const std::uint32_t blocks = blocks_of(entry);
    if (!ring_.fits(blocks, durable_last_seq_)) return false;
    Ring trial = ring_;
    trial.place(blocks, entry.jset.seq, durable_last_seq_);
    return trial.free_blocks(last_seq_for(entry.jset.seq)) >= least;
}

bool Journal::has_room() const {
    if (failed_ || ended_) return false;
    const JournalSeq pinned = oldest_pinned();
    if (open_seq() - pinned >= kMaxNeededEntries) return false;
    // Each queued entry takes at most one slot; the open one, the next, the margin and the reserve
    // five.
    if (free_slots_ >= closed_.size() + 5) return true;

    Ring trial = ring_;
    JournalSeq last_seq = durable_last_seq_;
    const auto put = [&](std::uint32_t blocks, JournalSeq seq) {
        if (!trial.fits(blocks, last_seq)) return false;
        trial.place(blocks, seq, last_seq);
        last_seq = std::max(last_seq, std::min(pinned, seq));
        return true;
    };
    for (const Pending& entry : closed_) {
        if (!put(blocks_of(entry), entry.jset.seq)) return false;
    }
    // The next keys may not fit in the open entry and open another one.
    JournalSeq next = open_seq();
    if (open_.words != 0 && !put(blocks_of(open_), next++)) return false;
    if (!put(limit_blocks_, next++)) return false;
    // A margin for those who were told "yes" together. Three slots have no room for it.
    if (ring_.slots() >= 4 && !put(limit_blocks_, next)) return false;
    return trial.free_blocks(last_seq) >= reserve_blocks_;
}

Task<Result<void>> Journal::wait_room() {
    while (!has_room()) {
        if (failed_) co_return fail(Errc::gone, "journal write failed");
        if (ended_) co_return fail(Errc::stopped, "journal is stopped");
        notify_writer();  // it looks after space when somebody waits
        co_await room_.wait();
    }
    co_return Result<void>();
}

Task<Result<void>> Journal::flush(JournalSeq seq) {
    CHECK(seq <= open_seq());
    const std::uint64_t ticket = ++flush_tickets_;
    if (durable_seq_ < seq) {
        flush_target_ = std::max(flush_target_, actual_seq(seq));
        notify_writer();
    }
    while (durable_seq_ < seq && flushed_tickets_ < ticket) {
        if (failed_) co_return fail(Errc::gone, "journal write failed");
        if (ended_) co_return fail(Errc::stopped, "journal is stopped");
        co_await durable_changed_.wait();
    }
    co_return Result<void>();
}

void Journal::set_btree_root(const ondisk::Key& key, std::uint16_t level) {
    roots_.btree_root = key;
    roots_.btree_level = level;
    roots_changed_ = true;
}

void Journal::set_uuid_bucket(const ondisk::Key& key) {
    roots_.uuid_bucket = key;
    roots_changed_ = true;
}

void Journal::set_prio_bucket(std::uint64_t bucket) {
    roots_.prio_bucket = bucket;
    roots_changed_ = true;
}

void Journal::pin(JournalSeq seq) {
    // Below that, an entry in flight or on disk already says that this one is not needed.
    CHECK(seq >= last_seq_);
    CHECK(seq <= open_seq());
    if (pins_.empty()) pins_base_ = seq;
    while (seq < pins_base_) {
        pins_.push_front(0);
        --pins_base_;
    }
    const std::size_t i = seq - pins_base_;
    if (i >= pins_.size()) pins_.resize(i + 1, 0);
    ++pins_[i];
}

void Journal::unpin(JournalSeq seq) {
    CHECK(seq >= pins_base_);
    CHECK(seq - pins_base_ < pins_.size());
    std::uint32_t& count = pins_[seq - pins_base_];
    CHECK(count > 0);
    if (--count != 0 || seq != pins_base_) return;
    while (!pins_.empty() && pins_.front() == 0) {
        pins_.pop_front();
        ++pins_base_;
    }
    if (blocked_ || room_.has_waiters()) notify_writer();
}

JournalSeq Journal::oldest_pinned() const {
    return pins_.empty() ? open_seq() : pins_base_;
}

void Journal::notify_writer() {
    ++changes_;
    wake_.notify();
}

void Journal::fail_journal() {
    failed_ = true;
    closed_.clear();
    durable_changed_.notify();
    room_.notify();
    if (const auto tell = std::exchange(failure_, nullptr)) tell();
}

}  // namespace uc::journal
