// The writer: the one task that puts entries on the device, one at a time.
//
//   seal      number, roots and last_seq are fixed, the bytes encoded
//   flush     the device: data, nodes and tables whose writes completed before are durable now
//   write     with FUA
//   durable   waiters are woken, slots below this entry's last_seq may be reused
//
// Since entry N + 1 is submitted after N is durable, a crash can only tear the last one. Since a
// slot is reused on the word of a durable last_seq only (not of the one in memory, as the kernel
// does), the newest valid entry finds everything that it needs, whatever is torn.
//
// Can a stale but valid entry be taken for one of ours? One from an earlier lap is below last_seq
// (ring.cc). One with a number that is used again, N + 1 after a torn N + 1: recovery read all
// slots and found N to be the highest valid number anywhere, so the torn one failed its checksum,
// and nothing makes it valid later. Hence no valid entry above ours exists, ever.
//
// Out of room. What frees slots is a durable entry with a higher last_seq. Leaves are asked to let
// go of their pins (need_); then an entry must be written to tell so, even if nobody has anything
// to write. If the first in the queue has keys and is too large for what is left, a small entry
// goes before it: the queue is renumbered by one. The writer leaves one block free for this,
// whatever happens. Pins need no change, because they are then on an older number than the keys
// have: they hold more than they must. Callers hold old numbers as well; durable_seq_ and flush()
// speak in theirs.
//
// A flush for which there is nothing to write must not eat the reserve: when only that is left, the
// device is flushed and no entry written.
#include "base/check.h"
#include "io/timed_wait.h"
#include "journal/journal.h"

namespace uc::journal {

Task<void> Journal::write_entries() {
    while (!failed_) {
        if (room_.has_waiters() && has_room()) room_.notify();
        const std::uint64_t seen = changes_;
        const Step step = next_step();
        blocked_ = step == Step::blocked;
        if (step == Step::end) break;
        if (step == Step::write || step == Step::advance) {
            co_await write_next(step == Step::advance);
            continue;
        }
        if (step == Step::flush_only) {
            co_await flush_without_entry();
            continue;
        }
        if (blocked_) ask_for_room(true);
        if (changes_ != seen) continue;
        if (!blocked_ && open_.words != 0) {
            const Duration left = open_due_ - clock_.now();
            co_await io::TimedWait(clock_, wake_, left);
        } else {
            co_await wake_.wait();
        }
    }
    ended_ = true;
    durable_changed_.notify();
    room_.notify();
}

bool Journal::write_due() const {
    if (!closed_.empty()) return true;
    if (flush_target_ >= open_seq()) return true;
    return open_.words != 0 && (stopping_ || clock_.now() >= open_due_);
}

// Would an entry without keys make a slot free?
bool Journal::can_advance() const {
    const JournalSeq last_seq = last_seq_for(head().jset.seq);
    return ring_.fits(1, durable_last_seq_) && ring_.free_slots(last_seq) > free_slots_;
}

Journal::Step Journal::next_step() const {
    const bool possible = leaves_free(head(), 1);
    const bool due = write_due();
    if (!due && stopping_) return Step::end;
    if (!due && (!room_.has_waiters() || has_room())) return Step::idle;
    if (due && closed_.empty() && open_.words == 0 && !roots_changed_ && !can_advance()) {
        const bool room =
            leaves_free(open_, reserve_blocks_) && open_seq() - oldest_pinned() < kMaxNeededEntries;
        return room ? Step::write : Step::flush_only;
    }
    // Written keys need less room than keys that may still grow; an advance makes some.
    const bool useful = due || open_.words != 0 || can_advance();
    if (useful && possible) return Step::write;
    return can_advance() ? Step::advance : Step::blocked;
}

Task<Result<void>> Journal::flush_device() {
    const bool forgiven = mutations_.has(Mutation::failed_cache_flush_forgiven);
    if (failed_ && !forgiven) co_return fail(Errc::gone, "the journal has failed");
    const Result<void> flushed = co_await cache_.flush();
    if (!flushed) fail_journal();
    // Another one may have failed meanwhile.
    if (failed_ && !forgiven) co_return fail(Errc::gone, "the cache device could not be flushed");
    co_return flushed;
}

Task<void> Journal::write_next(bool advance) {
    const std::uint64_t sector = seal(advance);
    if (!mutations_.has(Mutation::skip_journal_flush)) {
        const Result<void> flushed = co_await flush_device();
        if (!flushed) co_return;
    }
    const std::span<const std::byte> bytes = buffer_.span().first(sealed_bytes_);
    const bool fua = !mutations_.has(Mutation::entry_without_fua);
    const Result<void> written = co_await cache_.write(sector, bytes, fua);
    if (!written) {
        fail_journal();
        co_return;
    }
    entry_durable();
}

Task<void> Journal::flush_without_entry() {
    // Everything before the open entry is durable, and the open one was empty when these called.
    const std::uint64_t tickets = flush_tickets_;
    flush_target_ = open_seq() - 1;
    ask_for_room(false);
    const Result<void> flushed = co_await flush_device();
    if (!flushed) co_return;
    flushed_tickets_ = tickets;
    durable_changed_.notify();
}

// Moves the next entry into sealed_ and encodes it. Returns its sector.
std::uint64_t Journal::seal(bool advance) {
    if (advance) {
        shift_queue();
    } else {
        take_head();
    }
    ondisk::Jset& jset = sealed_.jset;
    jset.last_seq = last_seq_for(jset.seq);
    CHECK(jset.last_seq >= last_seq_);
    last_seq_ = jset.last_seq;
    if (mutations_.has(Mutation::tail_too_new)) jset.last_seq = jset.seq;
    if (mutations_.has(Mutation::slot_reused_early)) durable_last_seq_ = last_seq_;
    jset.uuid_bucket = roots_.uuid_bucket;
    jset.btree_root = roots_.btree_root;
    jset.btree_level = roots_.btree_level;
    jset.prio_bucket[0] = roots_.prio_bucket;
    roots_changed_ = false;

    const std::uint32_t blocks = blocks_of(sealed_);
    const Ring::Place place = ring_.place(blocks, jset.seq, durable_last_seq_);
    sealed_bytes_ = std::size_t{blocks} * geometry_.block_bytes();
    ondisk::encode_jset(jset, set_magic_, buffer_.span().first(sealed_bytes_));
    return geometry_.bucket_start(geometry_.first_bucket + place.slot) +
           std::uint64_t{place.block} * geometry_.block_sectors;
}

void Journal::take_head() {
    // The vectors of keys change places, so that their memory is used again.
    std::swap(sealed_, closed_.empty() ? open_ : closed_.front());
    if (!closed_.empty()) {
        closed_.pop_front();
        return;
    }
    open_.jset.keys.clear();
    open_.words = 0;
    open_.jset.seq = sealed_.jset.seq + 1;
}

// Makes sealed_ an entry without keys that has the number of the first in the queue.
void Journal::shift_queue() {
    const JournalSeq first = head().jset.seq;
    shifts_.push_back(Shift{first, open_seq()});
    for (Pending& entry : closed_) ++entry.jset.seq;
    ++open_.jset.seq;
    if (flush_target_ >= first) ++flush_target_;
    sealed_.jset.keys.clear();
    sealed_.words = 0;
    sealed_.jset.seq = first;
}

// What the entry that a caller knows as `seq` is called now.
JournalSeq Journal::actual_seq(JournalSeq seq) const {
    for (const Shift& shift : shifts_) {
        if (seq >= shift.first && seq <= shift.last) ++seq;
    }
    return seq;
}

void Journal::entry_durable() {
    durable_on_disk_ = sealed_.jset.seq;
    durable_last_seq_ = sealed_.jset.last_seq;
    free_slots_ = ring_.free_slots(durable_last_seq_);
    ++stats_.writes;
    stats_.written_sectors += sealed_bytes_ / kSectorBytes;

    // Back to the callers' numbers: the highest one at or below which all is durable.
    if (!shifts_.empty() && durable_on_disk_ > shifts_.back().last) shifts_.clear();
    JournalSeq seq = durable_on_disk_;
    for (auto shift = shifts_.rbegin(); shift != shifts_.rend(); ++shift) {
        if (seq >= shift->first && seq <= shift->last) --seq;
    }
    CHECK(seq >= durable_seq_);
    durable_seq_ = seq;
    durable_changed_.notify();
    ask_for_room(false);
}

// Asks for leaves to be written when less than half of the ring could be reused. `stuck`: again,
// even if asked before.
void Journal::ask_for_room(bool stuck) {
    if (!need_ || pins_.empty()) return;
    const JournalSeq pinned = oldest_pinned();
    const bool many = open_seq() - pinned >= kMaxNeededEntries / 2;
    const bool full = ring_.free_blocks(pinned) < ring_.total_blocks() / 2;
    if (!stuck && !many && !full) return;
    JournalSeq seq = std::max(ring_.newest_of_oldest_needed(pinned), pinned);
    if (many) seq = std::max(seq, pinned + kMaxNeededEntries / 4);
    seq = std::min(seq, open_seq());
    if (!stuck && seq <= asked_) return;
    asked_ = seq;
    ++stats_.reclaims;
    need_(seq);
}

}  // namespace uc::journal
