#include "gc/collector.h"

#include <gtest/gtest.h>

#include "index/test_world.h"

namespace uc::gc {
namespace {

using index::test::Key;
using index::test::TreeWorld;

class CollectorTest : public testing::Test {
protected:
    ~CollectorTest() override { world.executor.drop_all(); }
    // Makes the bucket of `key` worth `times` more generations, durably.
    void invalidate(const Key& key, unsigned times) {
        world.commit(std::vector<Key>{});  // drops the pin of an extent that was not committed
        const BucketIndex bucket = world.table().bucket_of(key.ptr());
        for (unsigned i = 0; i < times; ++i) world.table().invalidate(bucket);
        world.table().at(bucket).durable_gen = world.table().at(bucket).gen;
    }
    const alloc::Bucket& bucket_of(const Key& key) { return world.table().of(key.ptr()); }

    TreeWorld world;
    Collector collector{world.clock, world.table(), world.tree()};
};

TEST_F(CollectorTest, PassAdvancesLastGcOfBucketsWithoutOldPointers) {
    const Key key = world.extent(0, 8);
    invalidate(key, 5);  // no key was ever in the index
    EXPECT_EQ(bucket_of(key).last_gc, Gen(0));
    ASSERT_TRUE(world.run(collector.pass()));
    EXPECT_EQ(bucket_of(key).last_gc, bucket_of(key).gen);
    EXPECT_EQ(collector.passes(), 1u);
}

TEST_F(CollectorTest, PassKeepsLastGcWhereAnOldPointerIsStillInALeaf) {
    for (std::uint64_t i = 0; i < 10; ++i) world.commit(world.extent(1000 + 16 * i, 8));
    const Key key = world.extent(0, 8);
    world.commit(key);
    invalidate(key, 5);
    ASSERT_TRUE(world.run(collector.pass()));
    EXPECT_EQ(bucket_of(key).last_gc, key.ptr().gen());
}

TEST_F(CollectorTest, PassRewritesALeafWithAPointerThatIsTooOld) {
    for (std::uint64_t i = 0; i < 10; ++i) world.commit(world.extent(1000 + 16 * i, 8));
    const Key key = world.extent(0, 8);
    world.commit(key);
    world.write_all();
    invalidate(key, 20);
    const Key before = world.tree().root().key;
    ASSERT_TRUE(world.run(collector.pass()));
    EXPECT_NE(world.tree().root().key, before);
    EXPECT_EQ(world.tree().root().extents.size(), 10u);
    EXPECT_EQ(bucket_of(key).last_gc, bucket_of(key).gen);
}

TEST_F(CollectorTest, NodesThemselvesAreCountedAsPointers) {
    world.commit_many(1000);
    world.write_all();
    ASSERT_TRUE(world.run(collector.pass()));
    for (const index::Node* node : world.tree().nodes_in_memory()) {
        const alloc::Bucket& bucket = world.table().of(node->key.ptr());
        EXPECT_EQ(bucket.last_gc.newer_than(node->key.ptr().gen()), 0u);
    }
}

TEST_F(CollectorTest, RunsAfterASixteenthOfTheDeviceWasWritten) {
    collector.run(world.parts->group);
    world.executor.run_ready();
    const std::uint64_t device = world.geometry.nbuckets * world.geometry.bucket_sectors;
    collector.inserted(device / 16 - 1);
    world.executor.run_ready();
    EXPECT_EQ(collector.passes(), 0u);
    collector.inserted(1);
    world.executor.run_ready();
    EXPECT_EQ(collector.passes(), 1u);
}

TEST_F(CollectorTest, RequestStartsAPassAndStopEndsTheLoop) {
    collector.run(world.parts->group);
    world.executor.run_ready();
    collector.request();
    world.executor.run_ready();
    EXPECT_EQ(collector.passes(), 1u);
    collector.stop();
    collector.request();
    world.executor.run_ready();
    EXPECT_EQ(collector.passes(), 1u);
}

TEST_F(CollectorTest, PassThatIsStoppedLearnsNothing) {
    const Key key = world.extent(0, 8);
    invalidate(key, 5);
    collector.stop();
    ASSERT_TRUE(world.run(collector.pass()));
    EXPECT_EQ(bucket_of(key).last_gc, Gen(0));
}

TEST_F(CollectorTest, UnreadableLeafEndsThePassWithAnError) {
    world.commit_many(1000);
    world.write_all();
    world.memory_limit = 1;
    ASSERT_TRUE(world.reopen()) << world.problem;
    Collector again(world.clock, world.table(), world.tree());
    world.disk.fail_reads = true;
    EXPECT_FALSE(world.run(again.pass()));
    EXPECT_FALSE(again.running());
    EXPECT_EQ(again.passes(), 0u);
}

}  // namespace
}  // namespace uc::gc
