// What a flush costs and what it covers.
#include "engine_world.h"

namespace uc::test {
namespace {

class Flush : public testing::Test {
protected:
    SetVolume& start(CacheMode mode = CacheMode::writeback) {
        backing = &world.format({.mode = mode});
        SetVolume& volume = world.start(*backing);
        EXPECT_TRUE(world.flush(volume));
        return volume;
    }
    std::uint64_t requests() const { return world.cache->requests + backing->requests; }

    EngineWorld world;
    WatchedDevice* backing = nullptr;
};

TEST_F(Flush, WithNothingWrittenNeedsNoDevice) {
    SetVolume& volume = start();
    const std::uint64_t before = requests();
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(world.flush(volume));
    EXPECT_EQ(requests(), before);
    EXPECT_EQ(volume.stats().flushes, 11u);
}

TEST_F(Flush, OfDirtyDataLeavesTheBackingDeviceAlone) {
    SetVolume& volume = start();
    ASSERT_TRUE(world.write(volume, 0, 8, 1));
    const std::uint64_t before = backing->requests;
    EXPECT_TRUE(world.flush(volume));
    EXPECT_EQ(backing->requests, before);
    const std::uint64_t after = requests();
    EXPECT_TRUE(world.flush(volume));
    EXPECT_EQ(requests(), after) << "it is durable already";
}

TEST_F(Flush, OfWritesToTheBackingDeviceFlushesItOnce) {
    SetVolume& volume = start(CacheMode::writearound);
    ASSERT_TRUE(world.write(volume, 0, 8, 1));
    const std::uint64_t before = backing->flushes;
    EXPECT_TRUE(world.flush(volume));
    EXPECT_EQ(backing->flushes, before + 1);
    EXPECT_TRUE(world.on_backing(*backing, 0, 8, 1, true));
    EXPECT_TRUE(world.flush(volume));
    EXPECT_EQ(backing->flushes, before + 1);
}

TEST_F(Flush, FailsWhenTheBackingDeviceCannotBeFlushed) {
    SetVolume& volume = start(CacheMode::writearound);
    ASSERT_TRUE(world.write(volume, 0, 8, 1));
    backing->fail_writes = true;
    EXPECT_FALSE(world.flush(volume));
    backing->heal();
    EXPECT_TRUE(world.flush(volume));
    EXPECT_TRUE(world.on_backing(*backing, 0, 8, 1, true));
}

TEST_F(Flush, FuaWriteSurvivesAPowerCutWithoutAFlush) {
    for (const CacheMode mode : {CacheMode::writeback, CacheMode::writethrough}) {
        SetVolume& volume = start(mode);
        core::WriteFlags fua;
        fua.fua = true;
        ASSERT_TRUE(world.write(volume, 0, 64, 5, fua));
        world.crash(sim::CrashKind::power_cut);
        SetVolume& again = world.start(*backing);
        EXPECT_EQ(world.read(again, 0, 64, 5), 5) << ondisk::name_of(mode);
        ASSERT_TRUE(world.stop());
    }
}

TEST_F(Flush, CoversWritesOfEveryKind) {
    SetVolume& volume = start();
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.run(volume.write_zeroes(16, 8, core::WriteFlags())));
    ASSERT_TRUE(world.write(volume, 33, 2, 2));  // not whole blocks
    ASSERT_TRUE(world.write(volume, 4097, 3, 3));
    ASSERT_TRUE(world.flush(volume));
    world.crash(sim::CrashKind::power_cut);
    SetVolume& again = world.start(*backing);
    EXPECT_EQ(world.read(again, 0, 16, 1), 1);
    EXPECT_EQ(world.read(again, 16, 8, 1), 0);
    EXPECT_EQ(world.read(again, 24, 9, 1), 1);
    EXPECT_EQ(world.read(again, 33, 2, 2), 2);
    EXPECT_EQ(world.read(again, 35, 29, 1), 1);
    EXPECT_EQ(world.read(again, 4097, 3, 3), 3);
}

}  // namespace
}  // namespace uc::test
