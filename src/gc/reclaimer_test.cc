#include "gc/reclaimer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "alloc/prio_table.h"
#include "index/test_world.h"

namespace uc::gc {
namespace {

using index::test::Key;
using index::test::kMagic;
using index::test::TreeWorld;

class ReclaimerTest : public testing::Test {
protected:
    ReclaimerTest() {
        reclaimer = std::make_unique<Reclaimer>(
            ReclaimParts{world.executor, world.clock, world.rng, world.disk, world.table(),
                         allocator(), world.journal(), kMagic, superblock, world.mutations},
            std::vector<BucketIndex>{});
        reclaimer->on_starved([this] { ++starved; });
    }
    ~ReclaimerTest() override { world.executor.drop_all(); }

    alloc::Allocator& allocator() { return world.parts->allocator; }
    // Fills whole buckets until the reclaimer has something to do.
    std::vector<BucketIndex> fill(bool dirty = false) {
        std::vector<BucketIndex> used;
        while (allocator().wanted() == 0) {
            const auto stream = dirty ? alloc::Stream::dirty : alloc::Stream::clean;
            const auto space = allocator().try_allocate(stream, 8);
            CHECK(space && space->sectors == 8);
            next_ += 16;
            world.commit(Key::extent(1, next_, 8, space->ptr, dirty));
            allocator().unpin(space->ptr);
            used.push_back(world.table().bucket_of(space->ptr));
        }
        return used;
    }
    void run_reclaimer() {
        reclaimer->run(world.parts->group);
        world.executor.run_ready();
    }

    TreeWorld world;
    ondisk::Superblock superblock;
    std::unique_ptr<Reclaimer> reclaimer;
    unsigned starved = 0;

private:
    std::uint64_t next_ = 0;
};

TEST_F(ReclaimerTest, DoesNothingWhileEnoughIsFree) {
    world.disk.log.clear();
    run_reclaimer();
    EXPECT_EQ(world.disk.log, "");
    EXPECT_EQ(reclaimer->table_writes(), 0u);
}

TEST_F(ReclaimerTest, ReleasesBucketsOnlyWhenTableAndJournalEntryAreDurable) {
    fill();
    world.write_all();
    const std::uint64_t before = allocator().free_buckets();
    std::uint64_t most = 0;
    world.disk.before_write = [&](const io::IoRequest&) {
        most = std::max(most, allocator().free_buckets());
    };
    world.disk.log.clear();
    run_reclaimer();
    world.disk.before_write = nullptr;
    // Five members of the table, then a flush and the entry that points at them.
    EXPECT_EQ(world.disk.log.substr(0, 7), "wwwwwfW");
    EXPECT_LE(most, before) << "nothing was free before the last of these writes";
    EXPECT_GT(allocator().free_buckets(), before);
    EXPECT_GE(reclaimer->table_writes(), 1u);
}

TEST_F(ReclaimerTest, TableOnTheDiskHoldsTheNewGenerationOfEveryReleasedBucket) {
    fill();
    run_reclaimer();
    alloc::BucketTable found(world.geometry);
    std::string problem;
    const std::uint64_t first = world.journal().roots().prio_bucket;
    const auto members =
        world.run(alloc::read_prio_table(world.disk, first, kMagic, found, problem));
    ASSERT_TRUE(members) << problem;
    EXPECT_EQ(members->size(), world.geometry.prio_buckets());
    std::uint64_t released = 0;
    for (BucketIndex b = 0; b < world.table().size(); ++b) {
        const alloc::Bucket& bucket = world.table().at(b);
        if (!bucket.listed || bucket.durable_gen != bucket.gen) continue;
        EXPECT_EQ(found.at(b).gen, bucket.gen) << b;
        ++released;
    }
    EXPECT_GE(released, reclaimer->invalidated());
    for (const BucketIndex member : *members) {
        EXPECT_EQ(world.table().at(member).use, alloc::Use::prio);
    }
}

TEST_F(ReclaimerTest, FailedTableWriteReleasesNothingAndFailsTheSet) {
    fill();
    const std::uint64_t before = allocator().free_buckets();
    world.disk.fail_writes = true;
    run_reclaimer();
    EXPECT_TRUE(reclaimer->failed());
    EXPECT_TRUE(world.journal().failed());
    EXPECT_LE(allocator().free_buckets(), before);
}

TEST_F(ReclaimerTest, FailedJournalEntryReleasesNothing) {
    fill();
    world.write_all();
    const std::uint64_t before = allocator().free_buckets();
    world.disk.fail_flushes = true;
    run_reclaimer();
    EXPECT_TRUE(reclaimer->failed());
    EXPECT_LE(allocator().free_buckets(), before);
}

// As after a table that could not be read, when what is free is just enough for a new one.
TEST_F(ReclaimerTest, ReplacingTheTableLeavesBucketsForTheNextOne) {
    fill();
    const std::uint64_t needed = world.geometry.prio_buckets();
    while (allocator().free_buckets() > needed) {
        ASSERT_TRUE(allocator().take_prio());
    }
    EXPECT_TRUE(world.run(reclaimer->replace_table()));
    EXPECT_EQ(reclaimer->table_writes(), 1u);
    EXPECT_GE(allocator().free_buckets(), needed);
    run_reclaimer();
    EXPECT_FALSE(reclaimer->failed());
}

TEST_F(ReclaimerTest, DirtyDataAreNeverReclaimed) {
    const std::vector<BucketIndex> used = fill(true);
    run_reclaimer();
    for (const BucketIndex b : used) {
        EXPECT_EQ(world.table().at(b).dirty, 8u);
        EXPECT_FALSE(world.table().at(b).listed);
    }
    EXPECT_EQ(world.table().dirty_sectors(1), used.size() * 8);
}

TEST_F(ReclaimerTest, EmptyBucketsGoBeforeCleanData) {
    const std::vector<BucketIndex> used = fill();
    const std::uint64_t empty = 400;  // more than one pass wants
    for (std::uint64_t i = 0; i < empty; ++i) world.commit(TreeWorld::record(16 * i + 8, 8));
    run_reclaimer();
    for (std::size_t i = empty; i < used.size(); ++i) {
        EXPECT_EQ(world.table().at(used[i]).live, 8u) << i;
    }
    EXPECT_GT(reclaimer->invalidated(), 0u);
}

TEST_F(ReclaimerTest, LruTakesWhatWasUsedLongestAgo) {
    const std::vector<BucketIndex> used = fill();
    world.table().account_request(std::uint64_t{48000} * 100);
    for (std::size_t i = 0; i < used.size(); ++i) {
        if (i % 2 == 0) world.table().touch(used[i]);
    }
    run_reclaimer();
    std::uint64_t gone = 0;
    for (std::size_t i = 0; i < used.size(); ++i) {
        const bool kept = world.table().at(used[i]).live != 0;
        EXPECT_TRUE(kept || i % 2 != 0) << i;
        gone += !kept;
    }
    EXPECT_GT(gone, 0u);
}

TEST_F(ReclaimerTest, FifoTakesBucketsInTheirOrder) {
    superblock.set_replacement(ondisk::Replacement::fifo);
    std::vector<BucketIndex> used = fill();
    std::ranges::sort(used);
    run_reclaimer();
    const auto kept = [&](BucketIndex b) { return world.table().at(b).live != 0; };
    const auto first_kept = std::ranges::find_if(used, kept);
    EXPECT_NE(first_kept, used.begin());
    EXPECT_TRUE(std::all_of(first_kept, used.end(), kept));
}

TEST_F(ReclaimerTest, GenerationsInTheWayAskForACollection) {
    const std::vector<BucketIndex> used = fill();
    for (BucketIndex b = 0; b < world.table().size(); ++b) {
        alloc::Bucket& bucket = world.table().at(b);
        bucket.last_gc = Gen(static_cast<std::uint8_t>(bucket.gen.raw() - alloc::kMaxGenDistance));
    }
    run_reclaimer();
    EXPECT_GT(starved, 0u);
    for (const BucketIndex b : used) EXPECT_EQ(world.table().at(b).live, 8u);
}

}  // namespace
}  // namespace uc::gc
