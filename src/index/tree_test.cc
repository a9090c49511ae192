// The tree in memory: what is found, and how its shape follows its content.
#include "index/tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "index/test_world.h"

namespace uc::index {
namespace {

using test::Key;
using test::TreeWorld;

class TreeTest : public testing::Test {
protected:
    TreeWorld world;
};

TEST_F(TreeTest, BlankTreeFindsNothing) {
    EXPECT_TRUE(world.lookup(0, 1000).empty());
    EXPECT_EQ(world.tree().root().level, 0u);
}

TEST_F(TreeTest, LookupCutsExtentsToTheRange) {
    const Key key = world.extent(100, 8);
    world.commit(key);
    const std::vector<Key> found = world.lookup(102, 105);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].start(), 102u);
    EXPECT_EQ(found[0].end(), 105u);
    EXPECT_EQ(found[0].ptr(), key.ptr().advanced(2));
    EXPECT_TRUE(world.lookup(0, 100).empty());
    EXPECT_TRUE(world.lookup(108, 200).empty());
}

TEST_F(TreeTest, InodesAreApart) {
    world.commit(world.extent(0, 8, false, 1));
    world.commit(world.extent(0, 4, false, 2));
    EXPECT_EQ(world.lookup(0, 8, 1).front().size(), 8u);
    EXPECT_EQ(world.lookup(0, 8, 2).front().size(), 4u);
    EXPECT_TRUE(world.lookup(0, 8, 3).empty());
}

TEST_F(TreeTest, NewExtentOverridesTheMiddleOfAnOldOne) {
    const Key old = world.extent(0, 8, true);
    world.commit(old);
    const Key fresh = world.extent(2, 3);
    world.commit(fresh);
    const std::vector<Key> found = world.lookup(0, 8);
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found[0].ptr(), old.ptr());
    EXPECT_EQ(found[1].ptr(), fresh.ptr());
    EXPECT_EQ(found[2].ptr(), old.ptr().advanced(5));
    EXPECT_EQ(world.table().of(old.ptr()).dirty, 5u) << "accounted at once";
    EXPECT_EQ(world.table().dirty_sectors(1), 5u);
}

TEST_F(TreeTest, RecordRemovesARange) {
    world.commit(world.extent(0, 8, true));
    world.commit(TreeWorld::record(2, 4));
    EXPECT_TRUE(world.lookup(2, 6).empty());
    EXPECT_EQ(world.lookup(0, 8).size(), 2u);
    EXPECT_EQ(world.table().dirty_sectors(1), 4u);
}

TEST_F(TreeTest, StaleExtentsAreNotFoundButCountAsOverlapUntilDurablyStale) {
    const Key key = world.extent(0, 8);  // a whole bucket
    world.commit(key);
    const BucketIndex bucket = world.table().bucket_of(key.ptr());
    world.table().invalidate(bucket);
    EXPECT_TRUE(world.lookup(0, 8).empty());
    Overlap overlap;
    ASSERT_TRUE(world.tree().try_overlap(1, 0, 8, overlap));
    EXPECT_TRUE(overlap.clean) << "a crash could make it valid again";
    world.table().at(bucket).durable_gen = world.table().at(bucket).gen;
    ASSERT_TRUE(world.tree().try_overlap(1, 0, 8, overlap));
    EXPECT_FALSE(overlap.clean);
}

TEST_F(TreeTest, OverlapTellsDirtyFromClean) {
    world.commit(world.extent(0, 4, false));
    world.commit(world.extent(8, 4, true));
    Overlap overlap;
    ASSERT_TRUE(world.tree().try_overlap(1, 0, 8, overlap));
    EXPECT_TRUE(overlap.clean);
    EXPECT_FALSE(overlap.dirty);
    ASSERT_TRUE(world.tree().try_overlap(1, 2, 10, overlap));
    EXPECT_TRUE(overlap.clean);
    EXPECT_TRUE(overlap.dirty);
    ASSERT_TRUE(world.tree().try_overlap(1, 12, 100, overlap));
    EXPECT_FALSE(overlap.clean);
    EXPECT_FALSE(overlap.dirty);
}

TEST_F(TreeTest, LeafThatGrowsTooLargeIsSplitUnderANewRoot) {
    world.commit_many(200);
    world.executor.run_ready();
    EXPECT_EQ(world.tree().root().level, 1u);
    EXPECT_GE(world.tree().stats().splits, 1u);
    EXPECT_EQ(world.found(200), 200u);
    EXPECT_EQ(world.broken(), std::vector<std::string>());
}

TEST_F(TreeTest, ExtentAcrossLeavesIsCutAndFoundWhole) {
    world.commit_many(600);
    world.executor.run_ready();
    ASSERT_GE(world.tree().root().children.size(), 4u);
    const std::uint64_t border = world.tree().root().children.begin()->first.offset;
    const Key key = world.extent(border - 3, 8, true);
    world.commit(key);
    std::uint64_t at = border - 3;
    for (const Key& piece : world.lookup(border - 3, border + 5)) {
        EXPECT_EQ(piece.start(), at);
        EXPECT_EQ(piece.ptr(), key.ptr().advanced(at - (border - 3)));
        EXPECT_TRUE(piece.dirty());
        at = piece.end();
    }
    EXPECT_EQ(at, border + 5);
    EXPECT_EQ(world.broken(), std::vector<std::string>());
    EXPECT_EQ(world.table().of(key.ptr()).dirty, 8u);
}

TEST_F(TreeTest, JournalHoldsExtentsCutWhereLeavesEnd) {
    world.commit_many(600);
    world.executor.run_ready();
    const std::uint64_t border = world.tree().root().children.begin()->first.offset;
    world.commit(world.extent(border - 3, 8, true));
    ASSERT_TRUE(world.flush());
    journal::Recovered recovered;
    ASSERT_TRUE(
        world.run(journal::read_ring(world.disk, world.geometry, test::kMagic, false, recovered)));
    const std::vector<Key>& keys = recovered.entries.back().keys;
    ASSERT_GE(keys.size(), 2u);
    const Key& front = keys[keys.size() - 2];
    const Key& back = keys.back();
    EXPECT_EQ(front.start(), border - 3);
    EXPECT_EQ(front.end(), border);
    EXPECT_EQ(back.start(), border);
    EXPECT_EQ(back.end(), border + 5);
    EXPECT_EQ(back.ptr(), front.ptr().advanced(3));
}

TEST_F(TreeTest, RecordAcrossManyLeavesRemovesTheirExtents) {
    world.commit_many(600);
    world.executor.run_ready();
    world.commit(TreeWorld::record(100, 2000));
    EXPECT_TRUE(world.lookup(100, 2100).empty());
    EXPECT_EQ(world.found(25), 25u);
    EXPECT_EQ(world.found(75, 2100), 75u);
}

TEST_F(TreeTest, InteriorNodesSplitToo) {
    world.commit_many(16000);
    world.write_all();
    EXPECT_EQ(world.tree().root().level, 2u);
    EXPECT_EQ(world.broken(), std::vector<std::string>());
    EXPECT_EQ(world.found(16000), 16000u);
    ASSERT_TRUE(world.reopen()) << world.problem;
    EXPECT_EQ(world.tree().root().level, 2u);
    EXPECT_EQ(world.found(16000), 16000u);
}

TEST_F(TreeTest, SmallNeighboursAreJoinedByCollection) {
    world.commit_many(1000);
    world.write_all();
    const std::size_t leaves = world.tree().root().children.size();
    for (std::uint64_t i = 0; i < 1000; ++i) {
        if (i % 50 != 0) world.commit(TreeWorld::record(4 * i, 1));
    }
    for (int pass = 0; pass < 6; ++pass) world.collect();
    EXPECT_GT(world.tree().stats().merges, 0u);
    EXPECT_LT(world.tree().root().children.size(), leaves);
    for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(world.covered(4 * i), i % 50 == 0) << i;
    EXPECT_EQ(world.broken(), std::vector<std::string>());
    ASSERT_TRUE(world.reopen()) << world.problem;
    for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(world.covered(4 * i), i % 50 == 0) << i;
}

TEST_F(TreeTest, CollectionFindsTheOldestPointerOfEachBucket) {
    const Key key = world.extent(0, 4);
    world.commit(key);
    const BucketIndex bucket = world.table().bucket_of(key.ptr());
    world.table().at(bucket).open = false;
    world.table().invalidate(bucket);
    world.table().invalidate(bucket);
    for (int i = 0; i < 8; ++i) world.commit(world.extent(100 + 4 * static_cast<unsigned>(i)));
    EXPECT_EQ(world.collect()[bucket], key.ptr().gen()) << "the key is still in the leaf";
    world.commit(TreeWorld::record(0, 4));
    EXPECT_EQ(world.collect()[bucket], world.table().at(bucket).gen);
}

TEST_F(TreeTest, CollectionDropsStaleKeysWhereTheyPileUp) {
    std::vector<BucketIndex> buckets;
    for (std::uint64_t i = 0; i < 20; ++i) {
        const Key key = world.extent(i * 8, 8);
        world.commit(key);
        buckets.push_back(world.table().bucket_of(key.ptr()));
    }
    world.write_all();
    for (const BucketIndex bucket : buckets) {
        world.table().invalidate(bucket);
        world.table().at(bucket).durable_gen = world.table().at(bucket).gen;
    }
    const std::vector<Gen> oldest = world.collect();
    for (const BucketIndex bucket : buckets) {
        EXPECT_EQ(oldest[bucket], world.table().at(bucket).gen);
    }
    EXPECT_TRUE(world.tree().root().extents.empty());
}

TEST_F(TreeTest, TinyMemoryLimitEvictsWrittenLeavesAndLoadsThemAgain) {
    world.commit_many(3000);
    world.write_all();
    world.memory_limit = 20000;
    const std::uint64_t reads = world.tree().stats().node_reads;
    for (int round = 0; round < 3; ++round) EXPECT_EQ(world.found(3000), 3000u);
    EXPECT_EQ(world.tree().stats().node_reads, reads) << "nothing was evicted without need";
    // Eviction comes with loading and writing.
    world.commit_many(300, 20000);
    world.write_all();
    world.executor.run_ready();
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(world.found(3000), 3000u);
        EXPECT_EQ(world.found(300, 20000), 300u);
    }
    EXPECT_LT(world.tree().node_count(), 10u);
    EXPECT_GT(world.tree().stats().node_reads, reads);
    EXPECT_EQ(world.broken(), std::vector<std::string>());
}

// Each load once evicted a leaf that the same request needed, for ever.
TEST_F(TreeTest, RangeOfManyLeavesIsFoundWithNoMemoryToSpare) {
    world.commit_many(3000);
    world.write_all();
    world.memory_limit = 1;
    ASSERT_TRUE(world.reopen()) << world.problem;
    EXPECT_EQ(world.lookup(0, 12000).size(), 3000u);
    world.commit(TreeWorld::record(0, 12000));
    EXPECT_TRUE(world.lookup(0, 12000).empty());
}

TEST_F(TreeTest, ReadErrorOfALeafReachesTheCallerAndIsNotRemembered) {
    world.commit_many(1000);
    world.write_all();
    world.memory_limit = 1;
    ASSERT_TRUE(world.reopen()) << world.problem;
    world.write_all();
    Pieces pieces;
    ASSERT_FALSE(world.tree().try_lookup(1, 0, 1, pieces));
    world.disk.fail_reads = true;
    EXPECT_FALSE(world.run(world.tree().fetch(1, 0, 1)));
    world.disk.fail_reads = false;
    EXPECT_TRUE(world.covered(0));
    EXPECT_FALSE(world.tree().failed());
}

TEST_F(TreeTest, WriteErrorOfALeafFailsTheTreeAndTheJournal) {
    world.commit_many(10);
    world.disk.fail_writes = true;
    EXPECT_FALSE(world.run(world.tree().write_all()));
    EXPECT_TRUE(world.tree().failed());
    EXPECT_TRUE(world.journal().failed());
    EXPECT_EQ(world.run(world.tree().prepare(1, 0, 8)).error().code, Errc::gone);
}

TEST_F(TreeTest, LeavesAreWrittenWhenTheyGrowOld) {
    world.commit_many(10);
    ASSERT_TRUE(world.flush());
    EXPECT_EQ(world.journal().oldest_pinned(), 1u);
    for (int s = 0; s < 40; ++s) {
        world.clock.advance(std::chrono::seconds(1));
        world.executor.run_ready();
    }
    EXPECT_TRUE(world.tree().root().unwritten.empty());
    EXPECT_EQ(world.journal().oldest_pinned(), world.journal().open_seq());
}

TEST_F(TreeTest, VisitSeesEveryLeafInOrder) {
    world.commit_many(1000);
    world.executor.run_ready();
    std::vector<std::uint64_t> starts;
    ondisk::Pos cursor{};
    bool more = true;
    const auto see = [&](const Key& key) { starts.push_back(key.start()); };
    while (more) more = world.run(world.tree().visit(cursor, see))->more;
    EXPECT_EQ(starts.size(), 1000u);
    EXPECT_TRUE(std::ranges::is_sorted(starts));
}

// Random changes against a plain map, with a memory limit that evicts all the time and reopening
// from the disk now and then.
TEST_F(TreeTest, AgreesWithAMapUnderRandomChanges) {
    std::map<std::uint64_t, std::uint64_t> model;  // sector -> place
    Rng rng(5);
    world.memory_limit = 30000;
    for (int round = 0; round < 12; ++round) {
        for (int i = 0; i < 500; ++i) {
            const auto sectors = static_cast<std::uint32_t>(1 + rng.below(8));
            const std::uint64_t start = rng.below(6000);
            const bool removal = rng.percent(20);
            Key key = TreeWorld::record(start, sectors);
            if (!removal) {
                const Key whole = world.extent(start, 8);  // a bucket of its own
                key = whole.part(start, start + sectors);
            }
            world.commit(key);
            for (std::uint64_t s = 0; s < sectors; ++s) {
                if (removal) {
                    model.erase(start + s);
                } else {
                    model[start + s] = key.ptr().sector() + s;
                }
            }
        }
        if (round % 3 == 2) {
            ASSERT_TRUE(world.flush());
            ASSERT_TRUE(world.reopen()) << world.problem;
        }
        std::map<std::uint64_t, std::uint64_t> found;
        for (const Key& key : world.lookup(0, 7000)) {
            for (std::uint64_t s = 0; s < key.size(); ++s) {
                found[key.start() + s] = key.ptr().sector() + s;
            }
        }
        ASSERT_EQ(found, model) << "round " << round;
        ASSERT_EQ(world.broken(), std::vector<std::string>());
    }
}

}  // namespace
}  // namespace uc::index
