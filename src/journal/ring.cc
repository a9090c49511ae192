// Entries are packed at block granularity and never cross a slot's end; what is left over at the
// end of a slot stays unused. Slots are entered in ascending cyclic order, each only when the one
// before it was left, so that
//
//       oldest needed                  current
//   | free | free | needed | needed | needed/used | free |      (seq rises from left to right,
//   cyclic)
//
// the needed slots are contiguous and end at the current one. The kernel's search (format 4.7)
// relies on exactly this.
//
// Old content of a slot needs no wiping. When a slot is entered, all of it is below the last_seq of
// an entry that is already durable, hence below that of every later entry, hence every reader drops
// it: the first entry of the slot is read before the remains behind it, and carries such a
// last_seq.
#include "journal/ring.h"

#include <utility>

#include "base/check.h"

namespace uc::journal {

Ring::Ring(std::uint32_t slots, std::uint32_t slot_blocks)
    : slots_(slots), slot_blocks_(slot_blocks), used_(slot_blocks), newest_(slots, 0) {}

void Ring::stand_at(std::uint32_t slot, std::uint32_t used_blocks, std::vector<JournalSeq> newest) {
    CHECK(newest.size() == slots_);
    CHECK(slot < slots_);
    CHECK(used_blocks <= slot_blocks_);
    current_ = slot;
    used_ = used_blocks;
    newest_ = std::move(newest);
}

std::uint32_t Ring::free_slots(JournalSeq last_seq) const {
    std::uint32_t free = 0;
    while (free + 1 < slots_ && newest_[(current_ + 1 + free) % slots_] < last_seq) ++free;
    return free;
}

std::uint64_t Ring::free_blocks(JournalSeq last_seq) const {
    return std::uint64_t{free_slots(last_seq)} * slot_blocks_ + (slot_blocks_ - used_);
}

bool Ring::fits(std::uint32_t blocks, JournalSeq last_seq) const {
    if (used_ + blocks <= slot_blocks_) return true;
    return blocks <= slot_blocks_ && free_slots(last_seq) > 0;
}

Ring::Place Ring::place(std::uint32_t blocks, JournalSeq seq, JournalSeq last_seq) {
    CHECK(fits(blocks, last_seq));
    if (used_ + blocks > slot_blocks_) {
        current_ = (current_ + 1) % slots_;
        used_ = 0;
    }
    const Place place{current_, used_};
    used_ += blocks;
    newest_[current_] = seq;
    return place;
}

JournalSeq Ring::newest_of_oldest_needed(JournalSeq last_seq) const {
    for (std::uint32_t i = 1; i <= slots_; ++i) {
        const JournalSeq newest = newest_[(current_ + i) % slots_];
        if (newest != 0 && newest >= last_seq) return newest;
    }
    return 0;
}

}  // namespace uc::journal
