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

struct Client {
    bool enough = false;
    bool ended = false;
    unsigned writes = 0;
    unsigned grew = 0;  // writes after which more was dirty than before
};

// Overwrites the same few blocks, and others, without a pause until it is told to stop.
Task<void> keep_writing(SetVolume& volume, const io::Buffer& data, Client& client) {
    const core::WriteFlags flags;
    for (std::uint64_t i = 0; !client.enough; ++i) {
        const std::uint64_t block = i % 2 == 0 ? i % 16 : 1000 + i % 4096;
        const std::uint64_t before = volume.dirty_sectors();
        const Result<void> done = co_await volume.write(block * 8, data.span(), flags);
        EXPECT_TRUE(done);
        ++client.writes;
        client.grew += volume.dirty_sectors() > before ? 1 : 0;
    }
    client.ended = true;
}

TEST_F(Flush, WriteBackOfAllEndsThoughAClientKeepsWriting) {
    SetVolume& volume = start();
    for (std::uint64_t at = 0; at < 16384; at += 128) {
        ASSERT_TRUE(world.write(volume, at, 64, 1));
    }
    const io::Buffer data = pattern(0, 8, 2);
    Client client;
    world.world.executor().spawn(keep_writing(volume, data, client));
    EXPECT_TRUE(world.run(volume.write_back_all()));
    EXPECT_GT(client.writes, 5u);
    EXPECT_LE(client.grew, 1u) << "at most the write that was under way";
    EXPECT_EQ(volume.state(), BackingState::clean);
    client.enough = true;
    EXPECT_TRUE(world.wait_until([&] { return client.ended; }, minutes(1)));
}

TEST_F(Flush, NothingBecomesDirtyWhileThatIsPaused) {
    SetVolume& volume = start();
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_EQ(volume.dirty_sectors(), 64u);
    volume.pause_dirtying();
    volume.pause_dirtying();
    volume.resume_dirtying();
    ASSERT_TRUE(world.write(volume, 0, 32, 2));
    ASSERT_TRUE(world.write(volume, 128, 32, 3));
    EXPECT_EQ(volume.dirty_sectors(), 32u) << "what was overwritten is dirty no more";
    EXPECT_TRUE(world.on_backing(*backing, 0, 32, 2));
    EXPECT_TRUE(world.on_backing(*backing, 128, 32, 3));
    EXPECT_EQ(world.read(volume, 0, 32, 2), 2);
    EXPECT_EQ(world.read(volume, 32, 32, 1), 1);
    EXPECT_EQ(volume.cache_mode(), CacheMode::writeback);
    volume.resume_dirtying();
    ASSERT_TRUE(world.write(volume, 256, 32, 4));
    EXPECT_EQ(volume.dirty_sectors(), 64u);
}

}  // namespace
}  // namespace uc::test
