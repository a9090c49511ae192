#include "journal/journal.h"

#include <gtest/gtest.h>

#include <optional>

#include "journal/test_world.h"

namespace uc::journal {
namespace {

using namespace std::chrono_literals;
using test::read_image;
using test::Shape;
using test::World;

TEST(Journal, FirstEntryOfABlankSetIsSeqOneInSlotOne) {
    World world(Shape{});
    world.start_blank();
    ASSERT_TRUE(world.flush());
    const test::Reading reading = read_image(world.disk.bytes, world.geometry);
    ASSERT_TRUE(reading.result);
    EXPECT_EQ(reading.found.newest_slot, 1u);
    ASSERT_EQ(reading.found.entries.size(), 1u);
    const ondisk::Jset& entry = reading.found.entries[0];
    EXPECT_EQ(entry.seq, 1u);
    EXPECT_EQ(entry.last_seq, 1u);
    EXPECT_EQ(entry.btree_root, test::some_roots().btree_root);
    EXPECT_EQ(entry.uuid_bucket, test::some_roots().uuid_bucket);
    EXPECT_EQ(entry.prio_bucket[0], 7u);
}

TEST(Journal, FlushesTheDeviceBeforeEachEntryAndWritesItWithFua) {
    World world(Shape{});
    world.start_blank();
    world.append(1);
    ASSERT_TRUE(world.flush());
    ASSERT_TRUE(world.flush());
    EXPECT_EQ(world.disk.log, "fWfW");
}

TEST(Journal, FlushOfADurableSeqDoesNothing) {
    World world(Shape{});
    world.start_blank();
    const JournalSeq seq = world.append(1);
    ASSERT_TRUE(world.flush(seq));
    world.disk.log.clear();
    ASSERT_TRUE(world.flush(seq));
    EXPECT_EQ(world.disk.log, "");
}

TEST(Journal, WritesKeysAfterTheDelay) {
    World world(Shape{});
    world.start_blank();
    const JournalSeq seq = world.append(1);
    world.advance(60ms);
    world.append(1);  // does not start the delay again
    world.advance(39ms);
    EXPECT_EQ(world.disk.log, "");
    world.advance(1ms);
    EXPECT_EQ(world.disk.log, "fW");
    EXPECT_EQ(world.journal->durable_seq(), seq);
    world.advance(10s);
    EXPECT_EQ(world.disk.log, "fW");
}

TEST(Journal, OneWriteCoversAllWhoWaitDuringThePreviousOne) {
    World world(Shape{});
    world.start_blank();
    world.disk.hold = true;
    const auto& first = world.begin(world.journal->flush(world.append(1)));
    std::vector<const std::optional<Result<void>>*> others;
    for (int i = 0; i < 5; ++i) {
        others.push_back(&world.begin(world.journal->flush(world.append(1))));
    }
    const auto finish_write = [&] {
        for (int i = 0; i < 2; ++i) {
            ASSERT_EQ(world.disk.held.size(), 1u);
            world.disk.complete_one();
            world.executor.run_ready();
        }
    };
    finish_write();
    EXPECT_TRUE(first.has_value());
    for (const auto* other : others) EXPECT_FALSE(other->has_value());
    finish_write();
    for (const auto* other : others) EXPECT_TRUE(other->has_value());
    EXPECT_EQ(world.disk.log, "fWfW");
}

TEST(Journal, OpensTheNextEntryWhenKeysDoNotFit) {
    World world(Shape{});
    world.start_blank();
    EXPECT_EQ(world.journal->max_keys(), (32768u - 240) / 24);
    EXPECT_EQ(world.append(world.journal->max_keys()), 1u);
    EXPECT_EQ(world.append(1), 2u);
    world.executor.run_ready();
    EXPECT_EQ(world.journal->durable_seq(), 1u);  // a full entry is written at once
    world.advance(100ms);
    EXPECT_EQ(world.journal->durable_seq(), 2u);
}

TEST(Journal, EntryIsNotLargerThanAJournalBucket) {
    World world(Shape{4, 1, 8});
    world.start_blank();
    EXPECT_EQ(world.journal->max_keys(), (4096u - 240) / 24);
    world.append(world.journal->max_keys());
    ASSERT_TRUE(world.flush());
    EXPECT_TRUE(read_image(world.disk.bytes, world.geometry).result);
}

TEST(Journal, LastSeqIsTheOldestPinnedEntryAndNeverDecreases) {
    World world(Shape{});
    world.start_blank();
    Journal& journal = *world.journal;
    const JournalSeq a = world.append(1);
    journal.pin(a);
    ASSERT_TRUE(world.flush());
    const JournalSeq b = world.append(1);
    journal.pin(b);
    journal.pin(b);
    ASSERT_TRUE(world.flush(b));
    EXPECT_EQ(read_image(world.disk.bytes, world.geometry).found.entries.back().last_seq, a);
    journal.unpin(a);
    EXPECT_EQ(journal.oldest_pinned(), b);
    journal.unpin(b);
    EXPECT_EQ(journal.oldest_pinned(), b);
    ASSERT_TRUE(world.flush());
    EXPECT_EQ(read_image(world.disk.bytes, world.geometry).found.entries.back().last_seq, b);
    journal.unpin(b);
    EXPECT_EQ(journal.oldest_pinned(), journal.open_seq());
    ASSERT_TRUE(world.flush());
    const test::Reading reading = read_image(world.disk.bytes, world.geometry);
    EXPECT_EQ(reading.found.entries.size(), 1u);
    EXPECT_EQ(reading.found.entries[0].last_seq, reading.found.entries[0].seq);
}

TEST(JournalDeathTest, PinBelowTheSealedLastSeqIsOurBug) {
    World world(Shape{});
    world.start_blank();
    const JournalSeq seq = world.append(1);
    ASSERT_TRUE(world.flush());
    ASSERT_TRUE(world.flush());
    EXPECT_DEATH(world.journal->pin(seq), "seq >= last_seq_");
}

TEST(Journal, RootsAreTakenWhenTheEntryIsSealed) {
    World world(Shape{});
    world.start_blank();
    world.append(1);
    const ondisk::Key root =
        ondisk::Key::pointer(ondisk::kPosMax, 128, ondisk::Ptr::make(12288, Gen(3)));
    world.journal->set_btree_root(root, 2);
    world.journal->set_prio_bucket(99);
    ASSERT_TRUE(world.flush());
    const ondisk::Jset entry = read_image(world.disk.bytes, world.geometry).found.entries.back();
    EXPECT_EQ(entry.btree_root, root);
    EXPECT_EQ(entry.btree_level, 2u);
    EXPECT_EQ(entry.prio_bucket[0], 99u);
}

TEST(Journal, FailedWriteWakesEverybodyWithGone) {
    for (const bool in_flush : {false, true}) {
        World world(Shape{2, 8, 128});
        world.start_blank();
        world.disk.hold = true;
        const auto& flush = world.begin(world.journal->flush(world.append(1)));
        while (world.journal->has_room()) world.journal->pin(world.append(200));
        const auto& room = world.begin(world.journal->wait_room());
        EXPECT_FALSE(room.has_value());
        world.disk.fail_writes = !in_flush;
        world.disk.fail_flushes = in_flush;
        world.disk.hold = false;
        world.disk.complete_one();
        world.executor.run_ready();
        ASSERT_TRUE(flush.has_value());
        EXPECT_EQ(flush->error().code, Errc::gone);
        ASSERT_TRUE(room.has_value());
        EXPECT_EQ(room->error().code, Errc::gone);
        EXPECT_TRUE(world.journal->failed());
        EXPECT_FALSE(world.flush());
        EXPECT_EQ(world.group.running(), 0u);
    }
}

TEST(Journal, StopWritesWhatIsQueuedAndEndsTheWriter) {
    World world(Shape{});
    world.start_blank();
    const JournalSeq seq = world.append(1);
    world.journal->stop();
    world.executor.run_ready();
    EXPECT_EQ(world.journal->durable_seq(), seq);
    EXPECT_EQ(world.group.running(), 0u);
    const auto& late = world.begin(world.journal->flush(world.journal->open_seq()));
    ASSERT_TRUE(late.has_value());
    EXPECT_EQ(late->error().code, Errc::stopped);
}

TEST(Journal, StopDoesNotWaitForThoseWhoWaitForRoom) {
    World world(Shape{2, 8, 128});
    world.start_blank();
    while (world.journal->has_room()) {
        world.journal->pin(world.append(100));
        ASSERT_TRUE(world.flush());
    }
    const auto& waiting = world.begin(world.journal->wait_room());
    EXPECT_FALSE(waiting.has_value());
    world.journal->stop();
    world.executor.run_ready();
    ASSERT_TRUE(waiting.has_value());
    EXPECT_EQ(waiting->error().code, Errc::stopped);
    EXPECT_EQ(world.group.running(), 0u);
}

TEST(Journal, RecoveredJournalGoesOnInTheNextSlot) {
    World world(Shape{});
    world.start_blank();
    const JournalSeq first = world.append(3);
    world.journal->pin(first);
    ASSERT_TRUE(world.flush());
    world.journal->pin(world.append(4));
    ASSERT_TRUE(world.flush());
    const test::Reading before = read_image(world.disk.bytes, world.geometry);
    ASSERT_EQ(before.found.entries.size(), 2u);

    World after(Shape{});
    after.disk.bytes = world.disk.bytes;
    after.journal->start_recovered(before.found, test::some_roots());
    after.journal->run(after.group);
    EXPECT_EQ(after.journal->open_seq(), 3u);
    EXPECT_EQ(after.journal->durable_seq(), 2u);
    EXPECT_EQ(after.journal->oldest_pinned(), first);
    ASSERT_TRUE(after.flush());
    test::Reading reading = read_image(after.disk.bytes, after.geometry);
    ASSERT_TRUE(reading.result);
    EXPECT_EQ(reading.found.entries.size(), 3u);
    EXPECT_EQ(reading.found.newest_slot, 2u);
    after.journal->unpin(1);
    after.journal->unpin(2);
    ASSERT_TRUE(after.flush());
    reading = read_image(after.disk.bytes, after.geometry);
    EXPECT_EQ(reading.found.entries.size(), 1u);
}

}  // namespace
}  // namespace uc::journal
