// Room in the ring: back-pressure, reserve, reclaim.
#include <gtest/gtest.h>

#include <optional>

#include "journal/test_world.h"

namespace uc::journal {
namespace {

using namespace std::chrono_literals;
using test::read_image;
using test::Shape;
using test::World;

// Appends and pins until there is no room; everything is durable then.
void fill(World& world) {
    while (world.journal->has_room()) {
        const JournalSeq seq = world.append(100);
        world.journal->pin(seq);
        ASSERT_TRUE(world.flush(seq));
    }
}

TEST(JournalSpace, AsksForTheOldestSlotBeforeTheRingIsFull) {
    World world(Shape{8, 8, 128});
    JournalSeq asked = 0;
    world.journal->on_pressure([&](JournalSeq seq) { asked = seq; });
    world.start_blank();
    for (JournalSeq slot = 0; slot < 3; ++slot) {
        for (int i = 0; i < 2; ++i) {
            world.journal->pin(world.append(1300));
            ASSERT_TRUE(world.flush());
        }
    }
    EXPECT_EQ(asked, 0u);
    while (asked == 0) {
        ASSERT_TRUE(world.journal->has_room());
        world.journal->pin(world.append(1300));
        ASSERT_TRUE(world.flush());
    }
    EXPECT_EQ(asked, 2u);  // the first slot holds two entries
    EXPECT_TRUE(world.journal->has_room());
    EXPECT_EQ(world.journal->stats().reclaims, 1u);
}

TEST(JournalSpace, WaitersAreWokenWhenLeavesLetGo) {
    for (const Shape shape :
         {Shape{2, 1, 128}, Shape{2, 8, 128}, Shape{2, 1, 8}, Shape{3, 8, 32}}) {
        World world(shape);
        JournalSeq asked = 0;
        world.journal->on_pressure([&](JournalSeq seq) { asked = seq; });
        world.start_blank();
        fill(world);
        const auto& waiting = world.begin(world.journal->wait_room());
        world.advance(1s);
        EXPECT_FALSE(waiting.has_value());
        EXPECT_GT(asked, 0u);
        while (world.journal->oldest_pinned() < world.journal->open_seq()) {
            world.journal->unpin(world.journal->oldest_pinned());
        }
        world.executor.run_ready();
        ASSERT_TRUE(waiting.has_value());
        EXPECT_TRUE(waiting->has_value());
    }
}

TEST(JournalSpace, NewRootsFitWhenThereIsNoRoomForKeys) {
    World world(Shape{2, 8, 128});
    world.start_blank();
    fill(world);
    for (std::uint64_t bucket = 100; bucket < 105; ++bucket) {
        ASSERT_FALSE(world.journal->has_room());
        world.journal->set_prio_bucket(bucket);
        ASSERT_TRUE(world.flush());
        const test::Reading reading = read_image(world.disk.bytes, world.geometry);
        ASSERT_TRUE(reading.result);
        EXPECT_EQ(reading.found.entries.back().prio_bucket[0], bucket);
        EXPECT_EQ(reading.found.entries.front().seq, world.journal->oldest_pinned());
    }
}

TEST(JournalSpace, FlushesWithNothingToWriteDoNotEatTheReserve) {
    World world(Shape{2, 8, 128});
    world.start_blank();
    fill(world);
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(world.flush());
    world.disk.log.clear();
    ASSERT_TRUE(world.flush());
    EXPECT_EQ(world.disk.log, "f");  // what was written before is durable all the same
    world.journal->set_prio_bucket(5);
    ASSERT_TRUE(world.flush());
    EXPECT_EQ(world.disk.log, "ffW");
}

TEST(JournalSpace, FailureDuringAFlushWithoutEntryIsReported) {
    World world(Shape{2, 8, 128});
    world.start_blank();
    fill(world);
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(world.flush());
    world.disk.fail_flushes = true;
    const auto& result = world.begin(world.journal->flush(world.journal->open_seq()));
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->error().code, Errc::gone);
}

// A slot becomes free only when the last_seq that says so is durable; so a small entry must come
// first, and what was queued moves up by one number without its owners noticing.
TEST(JournalSpace, SmallEntryGoesBeforeOneThatDoesNotFit) {
    World world(Shape{2, 8, 128});  // 16 blocks per slot, entries of up to 8
    world.start_blank();
    Journal& journal = *world.journal;
    for (int i = 0; i < 3; ++i) {  // slot 1: blank entry and one; slot 0 becomes current, half full
        journal.pin(world.append(1300));
        ASSERT_TRUE(world.flush());
    }
    for (int i = 0; i < 4; ++i) {  // roots use up what is left, but for 4 blocks
        journal.set_prio_bucket(7);
        ASSERT_TRUE(world.flush());
    }
    const JournalSeq big = world.append(1300);
    journal.pin(big);
    const auto& flushed = world.begin(journal.flush(big));
    EXPECT_FALSE(flushed.has_value());
    EXPECT_LT(journal.durable_seq(), big);
    world.disk.hold = true;
    while (journal.oldest_pinned() < big) journal.unpin(journal.oldest_pinned());
    world.executor.run_ready();
    for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(world.disk.held.size(), 1u);
        world.disk.complete_one();
        world.executor.run_ready();
    }
    EXPECT_EQ(world.disk.held.size(),
              1u);  // the keys are on their way, without waiting for a delay
    // The entry that has the number `big` on disk is durable, the keys are not.
    EXPECT_EQ(read_image(world.disk.bytes, world.geometry).found.entries.back().seq, big);
    EXPECT_TRUE(read_image(world.disk.bytes, world.geometry).found.entries.back().keys.empty());
    EXPECT_FALSE(flushed.has_value());
    EXPECT_EQ(journal.durable_seq(), big - 1);
    const auto& late = world.begin(journal.flush(big));
    EXPECT_FALSE(late.has_value());
    world.disk.hold = false;
    world.disk.complete_one();
    world.executor.run_ready();
    EXPECT_TRUE(flushed.has_value());
    EXPECT_TRUE(late.has_value());
    EXPECT_GE(journal.durable_seq(), big);
    const test::Reading reading = read_image(world.disk.bytes, world.geometry);
    ASSERT_TRUE(reading.result);
    EXPECT_EQ(reading.found.entries.back().seq, big + 1);
    EXPECT_EQ(reading.found.entries.back().keys.size(), 1300u);
    EXPECT_EQ(reading.found.entries.front().seq, big);
}

TEST(JournalSpace, TooManyNeededEntriesCountAsNoRoom) {
    World world(Shape{64, 1, 1024});
    JournalSeq asked = 0;
    world.journal->on_pressure([&](JournalSeq seq) { asked = seq; });
    world.start_blank();
    const JournalSeq first = world.append(1);
    world.journal->pin(first);
    for (JournalSeq i = 1; i < kMaxNeededEntries; ++i) {
        ASSERT_TRUE(world.journal->has_room());
        world.append(1);
        ASSERT_TRUE(world.flush());
    }
    world.append(1);
    ASSERT_TRUE(world.flush());
    EXPECT_FALSE(world.journal->has_room());
    EXPECT_GT(asked, first);
    world.journal->unpin(first);
    EXPECT_TRUE(world.journal->has_room());
}

TEST(JournalSpace, RecoveryWithoutAFreeSlotGoesOnBehindTheNewestEntry) {
    World world(Shape{2, 8, 128});
    world.start_blank();
    fill(world);
    const test::Reading full = read_image(world.disk.bytes, world.geometry);
    ASSERT_TRUE(full.result);

    World after(Shape{2, 8, 128});
    after.disk.bytes = world.disk.bytes;
    after.journal->start_recovered(full.found, test::some_roots());
    after.journal->run(after.group);
    after.journal->set_prio_bucket(42);
    ASSERT_TRUE(after.flush());
    const test::Reading reading = read_image(after.disk.bytes, after.geometry);
    ASSERT_TRUE(reading.result) << reading.found.problem;
    EXPECT_EQ(reading.found.entries.back().prio_bucket[0], 42u);
    EXPECT_EQ(reading.found.entries.size(), full.found.entries.size() + 1);
}

}  // namespace
}  // namespace uc::journal
