// A backing device that fails: nothing counts as durable that a failed flush should have covered.
#include "engine_world.h"

namespace uc::test {
namespace {

class BackingFailure : public testing::Test {
protected:
    SetVolume& start(CacheMode mode) {
        backing = &world.format({.mode = mode});
        return world.start(*backing);
    }
    void fail_flushes() {
        backing->watch = [this](const io::IoRequest& request) {
            backing->fail_writes = request.kind == io::IoKind::flush;
        };
    }
    void heal() {
        backing->watch = nullptr;
        backing->heal();
    }

    EngineWorld world;
    WatchedDevice* backing = nullptr;
};

TEST_F(BackingFailure, FailedFlushInTheBackgroundIsToldToTheNextFlushOnce) {
    SetVolume& volume = start(CacheMode::writethrough);
    fail_flushes();
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    world.settle(seconds(3));
    heal();
    EXPECT_FALSE(world.flush(volume)) << "the write may be lost, and its writer must know";
    EXPECT_TRUE(world.flush(volume));
}

TEST_F(BackingFailure, FailedFlushIsToldToItsOwnCallerOnly) {
    SetVolume& volume = start(CacheMode::writethrough);
    fail_flushes();
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    EXPECT_FALSE(world.flush(volume));
    heal();
    EXPECT_TRUE(world.flush(volume));
}

TEST_F(BackingFailure, DataThatAFailedFlushShouldHaveCoveredAreNotCached) {
    SetVolume& volume = start(CacheMode::writethrough);
    fail_flushes();
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    world.settle(seconds(3));
    heal();
    EXPECT_FALSE(world.flush(volume));
    EXPECT_TRUE(world.flush(volume));
    world.settle(seconds(3));
    const std::uint64_t misses = volume.stats().cache_misses;
    EXPECT_EQ(world.read(volume, 0, 64, 1), 1);
    EXPECT_EQ(volume.stats().cache_misses, misses + 1)
        << "the device may come to have something else there";
    world.settle(seconds(3));
    EXPECT_EQ(world.read(volume, 0, 64, 1), 1);
    EXPECT_EQ(volume.stats().cache_misses, misses + 2)
        << "nor by the read: what the device shows it may have dropped already";
}

TEST_F(BackingFailure, WritebackWhoseFlushFailedIsDoneOnceMoreAndNoUserIsTold) {
    SetVolume& volume = start(CacheMode::writeback);
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.flush(volume));
    fail_flushes();
    EXPECT_FALSE(world.run(volume.write_back_all()));
    EXPECT_EQ(volume.dirty_sectors(), 64u);
    heal();
    EXPECT_TRUE(world.flush(volume)) << "the data are safe in the cache";
    const std::uint64_t writes = backing->writes;
    EXPECT_TRUE(world.run(volume.write_back_all()));
    EXPECT_GE(backing->writes, writes + 2) << "data and superblock";
    EXPECT_EQ(volume.dirty_sectors(), 0u);
    EXPECT_TRUE(world.on_backing(*backing, 0, 64, 1, true));
}

Task<void> flush_aside(SetVolume& volume, unsigned& good) {
    const Result<void> done = co_await volume.flush();
    good += done ? 1 : 0;
}

TEST_F(BackingFailure, FlushesAtTheSameTimeShareOne) {
    SetVolume& volume = start(CacheMode::none);
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    const std::uint64_t flushes = backing->flushes;
    unsigned good = 0;
    for (int i = 0; i < 20; ++i) world.world.executor().spawn(flush_aside(volume, good));
    ASSERT_TRUE(world.wait_until([&] { return good == 20; }, seconds(10)));
    EXPECT_LE(backing->flushes, flushes + 2);
    EXPECT_TRUE(world.on_backing(*backing, 0, 64, 1, true));
}

}  // namespace
}  // namespace uc::test
