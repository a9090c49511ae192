#include "journal/ring.h"

#include <gtest/gtest.h>

namespace uc::journal {
namespace {

TEST(Ring, BlankRingBeginsWithSlotOne) {
    Ring ring(4, 8);
    const Ring::Place place = ring.place(3, 1, 1);
    EXPECT_EQ(place.slot, 1u);
    EXPECT_EQ(place.block, 0u);
}

TEST(Ring, PacksEntriesAndNeverCrossesASlotEnd) {
    Ring ring(4, 8);
    ring.place(3, 1, 1);
    EXPECT_EQ(ring.place(3, 2, 1).block, 3u);
    const Ring::Place third = ring.place(3, 3, 1);
    EXPECT_EQ(third.slot, 2u);
    EXPECT_EQ(third.block, 0u);
}

TEST(Ring, NeededSlotsAreNotFree) {
    Ring ring(3, 4);
    ring.place(4, 1, 1);  // slot 1
    ring.place(4, 2, 1);  // slot 2
    EXPECT_EQ(ring.free_slots(1), 1u);
    ring.place(4, 3, 1);  // slot 0
    EXPECT_EQ(ring.free_slots(1), 0u);
    EXPECT_FALSE(ring.fits(1, 1));
    EXPECT_EQ(ring.free_slots(2), 1u);  // slot 1 holds only seq 1
    EXPECT_EQ(ring.free_slots(3), 2u);
    EXPECT_EQ(ring.newest_of_oldest_needed(1), 1u);
    EXPECT_EQ(ring.newest_of_oldest_needed(2), 2u);
    EXPECT_EQ(ring.newest_of_oldest_needed(4), 0u);
}

TEST(Ring, FreeBlocksCountTheRestOfTheCurrentSlot) {
    Ring ring(2, 16);
    ring.place(5, 1, 1);
    EXPECT_EQ(ring.free_blocks(1), 11u + 16u);
    EXPECT_EQ(ring.total_blocks(), 32u);
}

TEST(Ring, CurrentSlotIsNeverFree) {
    Ring ring(2, 4);
    ring.place(4, 1, 1);
    EXPECT_EQ(ring.free_slots(100), 1u);
}

}  // namespace
}  // namespace uc::journal
