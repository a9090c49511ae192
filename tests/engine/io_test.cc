// Requests of all shapes.
#include "engine_world.h"

namespace uc::test {
namespace {

class Requests : public testing::Test {
protected:
    SetVolume& start(CacheMode mode = CacheMode::writeback) {
        backing = &world.format({.mode = mode});
        SetVolume& volume = world.start(*backing);
        volume.options().sequential_cutoff_bytes = 0;
        return volume;
    }
    static constexpr std::uint64_t kMiB = 2048;  // sectors

    EngineWorld world;
    WatchedDevice* backing = nullptr;
};

TEST_F(Requests, WriteOfOneMebibyteSpansManyBucketsAndComesBack) {
    SetVolume& volume = start();
    ASSERT_TRUE(world.write(volume, 8, kMiB, 1));
    EXPECT_EQ(volume.dirty_sectors(), kMiB);
    EXPECT_EQ(world.read(volume, 8, kMiB, 1), 1);
    EXPECT_EQ(volume.stats().cache_hits, 1u);
    ASSERT_TRUE(world.flush(volume));
    world.crash(sim::CrashKind::power_cut);
    SetVolume& again = world.start(*backing);
    EXPECT_EQ(world.read(again, 8, kMiB, 1), 1);
    EXPECT_EQ(world.run(world.set->check_invariants()), std::vector<std::string>());
}

TEST_F(Requests, ReadCollectsDirtyCleanAndMissingPieces) {
    SetVolume& volume = start();
    // All of it is on the backing device; a part of that in the cache, a part overwritten there.
    ASSERT_TRUE(world.write(volume, 0, kMiB, 1));
    ASSERT_TRUE(world.run(volume.write_back_all()));
    ASSERT_TRUE(world.run(world.set->detach(volume)));
    SetVolume& again = world.restart(*backing);
    again.options().sequential_cutoff_bytes = 0;
    for (std::uint64_t at = 64; at < kMiB; at += 256) {
        EXPECT_EQ(world.read(again, at, 32, 1), 1);  // fills
        ASSERT_TRUE(world.write(again, at + 64, 32, 1));
    }
    world.settle(seconds(3));
    EXPECT_EQ(again.stats().filled_sectors, 8 * 32u);
    EXPECT_EQ(world.read(again, 0, kMiB, 1), 1);
    EXPECT_EQ(again.stats().cache_misses, 9u);
    world.settle(seconds(3));
    EXPECT_EQ(world.read(again, 0, kMiB, 1), 1);
    EXPECT_EQ(again.stats().cache_hits, 1u) << "the gaps were filled";
    EXPECT_EQ(world.run(world.set->check_invariants()), std::vector<std::string>());
}

TEST_F(Requests, OverwritesInTheMiddleCutExtents) {
    SetVolume& volume = start();
    ASSERT_TRUE(world.write(volume, 0, kMiB, 1));
    ASSERT_TRUE(world.write(volume, 504, 1000, 2));
    ASSERT_TRUE(world.write(volume, 1000, 8, 3));
    EXPECT_EQ(world.read(volume, 0, 504, 1), 1);
    EXPECT_EQ(world.read(volume, 504, 496, 2), 2);
    EXPECT_EQ(world.read(volume, 1000, 8, 3), 3);
    EXPECT_EQ(world.read(volume, 1008, 496, 2), 2);
    EXPECT_EQ(world.read(volume, 1504, kMiB - 1504, 1), 1);
    EXPECT_EQ(volume.dirty_sectors(), kMiB);
    ASSERT_TRUE(world.run(volume.write_back_all()));
    EXPECT_TRUE(world.on_backing(*backing, 1000, 8, 3, true));
    EXPECT_TRUE(world.on_backing(*backing, 1008, 496, 2, true));
}

TEST_F(Requests, SectorsOfABlockThatIsCachedAreUpdatedThere) {
    SetVolume& volume = start();
    ASSERT_TRUE(world.write(volume, 0, 16, 1));
    ASSERT_TRUE(world.write(volume, 5, 6, 2));  // across two blocks
    EXPECT_EQ(world.read(volume, 0, 5, 1), 1);
    EXPECT_EQ(world.read(volume, 5, 6, 2), 2);
    EXPECT_EQ(world.read(volume, 11, 5, 1), 1);
    EXPECT_EQ(volume.dirty_sectors(), 16u);
}

TEST_F(Requests, RequestBeyondTheEndIsRefused) {
    SetVolume& volume = start();
    const std::uint64_t size = volume.size_sectors();
    EXPECT_EQ(world.write(volume, size - 4, 8, 1).error().code, Errc::invalid);
    EXPECT_EQ(world.read_result(volume, size, 1).error().code, Errc::invalid);
    EXPECT_EQ(world.read_result(volume, ~std::uint64_t{0}, 8).error().code, Errc::invalid);
    EXPECT_TRUE(world.write(volume, size - 8, 8, 1));
    EXPECT_EQ(world.read(volume, size - 8, 8, 1), 1);
}

TEST_F(Requests, EmptyRequestsSucceed) {
    SetVolume& volume = start();
    EXPECT_TRUE(world.read_result(volume, 0, 0));
    EXPECT_TRUE(world.write(volume, 0, 0, 1));
}

TEST_F(Requests, WriteZeroesReadsAsZeroes) {
    SetVolume& volume = start();
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.run(volume.write_zeroes(3, 50, core::WriteFlags())));
    EXPECT_EQ(world.read(volume, 0, 3, 1), 1);
    EXPECT_EQ(world.read(volume, 3, 50, 1), 0);
    EXPECT_EQ(world.read(volume, 53, 11, 1), 1);
}

TEST_F(Requests, WritethroughDataAreServedFromTheCacheLater) {
    SetVolume& volume = start(CacheMode::writethrough);
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    EXPECT_TRUE(world.on_backing(*backing, 0, 64, 1));
    world.settle(seconds(3));
    EXPECT_EQ(world.read(volume, 0, 64, 1), 1);
    EXPECT_EQ(volume.stats().cache_hits, 1u);
    EXPECT_EQ(volume.dirty_sectors(), 0u);
}

TEST_F(Requests, RequestsAfterTheStopAreRefused) {
    SetVolume& volume = start();
    ASSERT_TRUE(world.run(world.set->stop()));
    EXPECT_EQ(world.write(volume, 0, 8, 1).error().code, Errc::stopped);
    EXPECT_EQ(world.read_result(volume, 0, 8).error().code, Errc::stopped);
    EXPECT_EQ(world.flush(volume).error().code, Errc::stopped);
}

TEST_F(Requests, FlashOnlyVolumeKeepsItsDataAndReadsZeroesElsewhere) {
    start();
    const auto flash = world.run(world.set->create_flash_volume(10000, "scratch"));
    ASSERT_TRUE(flash);
    ASSERT_TRUE(world.write(**flash, 100, 200, 1));
    EXPECT_EQ(world.read(**flash, 4000, 100, 1), 0);
    ASSERT_TRUE(world.run((*flash)->discard(120, 16)));
    ASSERT_TRUE(world.flush(**flash));
    world.crash(sim::CrashKind::power_cut);
    world.start(*backing);
    SetVolume* found = nullptr;
    for (SetVolume* const volume : world.set->volumes()) {
        if (volume->flash_only()) found = volume;
    }
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->label(), "scratch");
    EXPECT_EQ(found->size_sectors(), 10000u);
    EXPECT_EQ(world.read(*found, 100, 20, 1), 1);
    EXPECT_EQ(world.read(*found, 120, 16, 1), 0);
    EXPECT_EQ(world.read(*found, 136, 164, 1), 1);
}

}  // namespace
}  // namespace uc::test
