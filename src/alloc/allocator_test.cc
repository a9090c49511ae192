#include "alloc/allocator.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "async/executor.h"

namespace uc::alloc {
namespace {

using ondisk::Ptr;

template <class T>
Task<void> keep_result(Task<Result<T>> task, std::optional<Result<T>>& out) {
    Result<T> result = co_await std::move(task);
    out.emplace(std::move(result));
}

class AllocatorTest : public testing::Test {
protected:
    AllocatorTest() { allocator.list_unreferenced(); }
    ~AllocatorTest() override { executor.drop_all(); }

    static ondisk::Geometry small_geometry() {
        ondisk::Geometry geometry;
        geometry.block_sectors = 8;
        geometry.bucket_sectors = 128;
        geometry.nbuckets = 256;
        geometry.first_bucket = 1;
        geometry.njournal = 2;
        return geometry;
    }
    // One table has one bucket; two tables and 16 buckets for nodes are kept back.
    static constexpr std::uint64_t kPrioReserve = 2;
    static constexpr std::uint64_t kReserve = kPrioReserve + 16;

    template <class T>
    void start(Task<Result<T>> task, std::optional<Result<T>>& out) {
        executor.spawn(keep_result(std::move(task), out));
        executor.run_ready();
    }
    // Takes whole buckets until no more data may be had.
    void use_up_data() {
        while (allocator.try_allocate(Stream::clean, 128)) {
        }
    }
    BucketIndex bucket(const std::optional<Space>& space) const {
        return table.bucket_of(space->ptr);
    }

    async::Executor executor;
    BucketTable table{small_geometry()};
    Allocator allocator{table};
};

TEST_F(AllocatorTest, ListsEveryUnreferencedBucketWithANewGeneration) {
    EXPECT_EQ(allocator.free_buckets(), 253u);
    EXPECT_TRUE(table.at(3).listed);
    EXPECT_EQ(table.at(3).gen, Gen(1));
    EXPECT_EQ(table.at(3).durable_gen, Gen(0)) << "a pointer that becomes durable carries it";
    EXPECT_FALSE(table.at(1).listed);
}

TEST(AllocatorStart, SkipsSeenPinnedUsedAndWornOutBuckets) {
    ondisk::Geometry geometry;
    geometry.bucket_sectors = 128;
    geometry.nbuckets = 64;
    geometry.njournal = 2;
    BucketTable table(geometry);
    table.at(10).seen = true;
    table.at(11).pins = 1;
    table.set_use(12, Use::node);
    table.at(13).gen = Gen(kMaxGenDistance);
    Allocator allocator(table);
    allocator.list_unreferenced();
    for (BucketIndex b = 10; b <= 13; ++b) EXPECT_FALSE(table.at(b).listed) << b;
    EXPECT_TRUE(table.at(14).listed);
    EXPECT_EQ(allocator.free_buckets(), 64u - 3 - 4);
}

TEST_F(AllocatorTest, FillsABucketBeforeItOpensAnother) {
    const auto first = allocator.try_allocate(Stream::clean, 40);
    const auto second = allocator.try_allocate(Stream::clean, 40);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(second->ptr, first->ptr.advanced(40));
    EXPECT_EQ(second->ptr.gen(), table.at(bucket(first)).gen);
}

TEST_F(AllocatorTest, ExtentNeverCrossesABucketAndKeepsToBlocks) {
    std::set<std::uint64_t> taken;
    for (int i = 0; i < 200; ++i) {
        const std::uint32_t want = 8 * (1 + static_cast<std::uint32_t>(i) % 20);
        const auto space = allocator.try_allocate(Stream::dirty, want);
        ASSERT_TRUE(space);
        ASSERT_LE(space->sectors, want);
        ASSERT_EQ(space->sectors % 8, 0u);
        const std::uint64_t inside = space->ptr.sector() % 128;
        ASSERT_EQ(inside % 8, 0u);
        ASSERT_LE(inside + space->sectors, 128u);
        for (std::uint64_t s = 0; s < space->sectors; ++s) {
            ASSERT_TRUE(taken.insert(space->ptr.sector() + s).second) << "handed out twice";
        }
    }
}

TEST_F(AllocatorTest, StreamsNeverShareABucket) {
    std::array<std::set<BucketIndex>, 3> buckets;
    for (int i = 0; i < 60; ++i) {
        const auto stream = static_cast<Stream>(i % 3);
        const auto space = allocator.try_allocate(stream, 24);
        ASSERT_TRUE(space);
        buckets[static_cast<std::size_t>(i % 3)].insert(bucket(space));
    }
    for (const BucketIndex b : buckets[0]) {
        EXPECT_FALSE(buckets[1].contains(b));
        EXPECT_FALSE(buckets[2].contains(b));
    }
    for (const BucketIndex b : buckets[1]) EXPECT_FALSE(buckets[2].contains(b));
}

TEST_F(AllocatorTest, OpenAndPinnedBucketsAreNotReclaimable) {
    const auto first = allocator.try_allocate(Stream::clean, 128);  // fills and closes it
    ASSERT_TRUE(first);
    EXPECT_FALSE(table.at(bucket(first)).open);
    EXPECT_FALSE(table.reclaimable(bucket(first))) << "its key is not in the index yet";
    allocator.unpin(first->ptr);
    EXPECT_TRUE(table.reclaimable(bucket(first)));
    const auto second = allocator.try_allocate(Stream::clean, 8);
    allocator.unpin(second->ptr);
    EXPECT_FALSE(table.reclaimable(bucket(second))) << "it is being filled";
}

TEST_F(AllocatorTest, DataLeavesTheReserveAlone) {
    use_up_data();
    EXPECT_EQ(allocator.free_buckets(), kReserve);
    EXPECT_FALSE(allocator.can_take_data());
    EXPECT_GT(allocator.wanted(), 0u);
}

TEST_F(AllocatorTest, MetadataUsesItsReserveAndLeavesTheOneOfThePriorityTable) {
    use_up_data();
    for (std::uint64_t i = kPrioReserve; i < kReserve; ++i) {
        std::optional<Result<BucketIndex>> taken;
        start(allocator.take_metadata(Use::node), taken);
        ASSERT_TRUE(taken && *taken) << i;
        EXPECT_EQ(table.at(**taken).use, Use::node);
    }
    std::optional<Result<BucketIndex>> waiting;
    start(allocator.take_metadata(Use::node), waiting);
    EXPECT_FALSE(waiting);
    EXPECT_TRUE(allocator.take_prio());
    EXPECT_TRUE(allocator.take_prio());
    EXPECT_FALSE(allocator.take_prio());
}

TEST_F(AllocatorTest, WaitingAllocationGetsTheBucketThatIsReleased) {
    use_up_data();
    std::optional<Result<Space>> space;
    start(allocator.allocate(Stream::dirty, 8), space);
    EXPECT_FALSE(space);
    table.add(ondisk::Key::extent(1, 128, 128, Ptr::make(384, table.at(3).gen), false));
    allocator.unpin(Ptr::make(384, table.at(3).gen));
    table.invalidate(3);
    allocator.release(3);
    executor.run_ready();
    ASSERT_TRUE(space && *space);
    EXPECT_EQ(allocator.free_buckets(), kReserve);
    EXPECT_TRUE(table.at(3).listed) << "first in, first out";
}

TEST_F(AllocatorTest, WaitingAllocationFailsWhenNothingCanBeReclaimed) {
    use_up_data();
    std::optional<Result<Space>> space;
    start(allocator.allocate(Stream::dirty, 8), space);
    EXPECT_FALSE(space);
    allocator.nothing_reclaimable();
    executor.run_ready();
    ASSERT_TRUE(space);
    EXPECT_EQ(space->error().code, Errc::no_space);
}

TEST_F(AllocatorTest, MetadataGoesOnWaitingWhenNothingCanBeReclaimed) {
    use_up_data();
    std::vector<BucketIndex> taken;
    while (allocator.free_buckets() > kPrioReserve) taken.push_back(*allocator.take_prio());
    std::optional<Result<BucketIndex>> bucket;
    start(allocator.take_metadata(Use::node), bucket);
    allocator.nothing_reclaimable();
    executor.run_ready();
    EXPECT_FALSE(bucket) << "a node split cannot be given up";
    allocator.release(taken.front());
    executor.run_ready();
    EXPECT_TRUE(bucket && *bucket);
}

TEST_F(AllocatorTest, ShutDownEndsEveryWait) {
    use_up_data();
    while (allocator.free_buckets() > kPrioReserve) allocator.take_prio();
    std::optional<Result<Space>> space;
    std::optional<Result<BucketIndex>> bucket;
    start(allocator.allocate(Stream::clean, 8), space);
    start(allocator.take_metadata(Use::uuid), bucket);
    allocator.shut_down();
    executor.run_ready();
    ASSERT_TRUE(space && bucket);
    EXPECT_EQ(space->error().code, Errc::stopped);
    EXPECT_EQ(bucket->error().code, Errc::stopped);
}

TEST_F(AllocatorTest, FreedNodeBecomesReclaimableWithANewGenerationIfPointedAt) {
    std::optional<Result<BucketIndex>> first;
    start(allocator.take_metadata(Use::node), first);
    const BucketIndex node = **first;
    const Gen before = table.at(node).gen;
    EXPECT_FALSE(table.reclaimable(node));
    allocator.free_metadata(node, true);
    EXPECT_EQ(table.at(node).gen, before.next());
    EXPECT_TRUE(table.reclaimable(node));
    std::optional<Result<BucketIndex>> second;
    start(allocator.take_metadata(Use::node), second);
    const Gen kept = table.at(**second).gen;
    allocator.free_metadata(**second, false);
    EXPECT_EQ(table.at(**second).gen, kept);
}

TEST_F(AllocatorTest, AsksForMoreBeforeItRunsOut) {
    EXPECT_EQ(allocator.wanted(), 0u);
    while (allocator.wanted() == 0) ASSERT_TRUE(allocator.try_allocate(Stream::clean, 128));
    EXPECT_TRUE(allocator.can_take_data()) << "the reclaimer has time before anybody waits";
}

}  // namespace
}  // namespace uc::alloc
