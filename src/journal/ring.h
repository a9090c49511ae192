// The space of the ring: which slot and block the next entry takes, and which slots may be
// overwritten. Pure arithmetic; copied to try out a future.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace uc::journal {

class Ring {
public:
    Ring(std::uint32_t slots, std::uint32_t slot_blocks);

    // Stands behind `used_blocks` of `slot`; `newest` is the highest seq in each slot (0 = none).
    void stand_at(std::uint32_t slot, std::uint32_t used_blocks, std::vector<JournalSeq> newest);

    // A slot is free if everything in it is below `last_seq`; the current one never is. The free
    // ones are the next in order, because slots are filled in order.
    std::uint32_t free_slots(JournalSeq last_seq) const;
    // Blocks in free slots and in the rest of the current one.
    std::uint64_t free_blocks(JournalSeq last_seq) const;
    std::uint64_t total_blocks() const { return std::uint64_t{slots_} * slot_blocks_; }

    bool fits(std::uint32_t blocks, JournalSeq last_seq) const;
    struct Place {
        std::uint32_t slot = 0;
        std::uint32_t block = 0;
    };
    // Takes the room; it must fit.
    Place place(std::uint32_t blocks, JournalSeq seq, JournalSeq last_seq);

    // Highest seq of the oldest slot that is not free with respect to `last_seq`. 0 = no such slot.
    JournalSeq newest_of_oldest_needed(JournalSeq last_seq) const;

    std::uint32_t slots() const { return slots_; }
    std::uint32_t slot_blocks() const { return slot_blocks_; }

private:
    std::uint32_t slots_;
    std::uint32_t slot_blocks_;
    std::uint32_t current_ = 0;
    std::uint32_t used_ = 0;  // blocks of the current slot
    std::vector<JournalSeq> newest_;
};

}  // namespace uc::journal
