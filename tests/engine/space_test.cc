// A cache without a free bucket: who waits, for what, and who is told.
#include "engine_world.h"

namespace uc::test {
namespace {

class Space : public testing::Test {
protected:
    SetVolume* flash_volume(std::uint64_t sectors) {
        const auto created = world.run(world.set->create_flash_volume(sectors, ""));
        EXPECT_TRUE(created);
        return created ? *created : nullptr;
    }
    // Writes until it fails; returns the sectors that went well.
    std::uint64_t fill(SetVolume& volume, Result<void>& last) {
        std::uint64_t at = 0;
        for (last = {}; last && at < volume.size_sectors(); at += last ? 128 : 0) {
            last = world.write(volume, at, 128, 1);
        }
        return at;
    }
    Instant now() { return world.world.clock().now(); }

    EngineWorld world;
};

TEST_F(Space, FlashVolumeWithoutHopeOfABucketIsToldSoSoon) {
    ASSERT_TRUE(world.open());
    SetVolume* const volume = flash_volume(world.cache->size_sectors() * 2);
    ASSERT_NE(volume, nullptr);
    Result<void> last;
    const std::uint64_t written = fill(*volume, last);
    ASSERT_FALSE(last);
    EXPECT_EQ(last.error().code, Errc::no_space);
    EXPECT_GT(written, world.cache->size_sectors() * 3 / 4);
    const Instant begin = now();
    EXPECT_FALSE(world.write(*volume, written, 128, 1));
    EXPECT_LT(now() - begin, seconds(2)) << "nothing dirty that could be written back";
    EXPECT_EQ(world.read(*volume, 0, 128, 1), 1);
    ASSERT_TRUE(world.run(volume->discard(0, written / 2)));
    EXPECT_TRUE(world.write(*volume, written, 128, 1)) << "space that was given back is used";
}

TEST_F(Space, WritebackForgetsItsRateWhileAFlashVolumeWaits) {
    WatchedDevice& backing = world.format();
    SetVolume& cached = world.start(backing);
    cached.options().writeback_percent = 99;  // in no hurry: a few sectors a second
    cached.options().sequential_cutoff_bytes = 0;
    cached.options_changed();
    SetVolume* const volume = flash_volume(world.cache->size_sectors());
    ASSERT_NE(volume, nullptr);
    for (std::uint64_t at = 0; at < world.cache->size_sectors() / 3; at += 128) {
        ASSERT_TRUE(world.write(cached, at, 128, 2));
    }
    EXPECT_GT(cached.dirty_sectors(), world.cache->size_sectors() / 5);
    cached.options().writeback_running = true;
    cached.options_changed();
    const Instant begin = now();
    Result<void> last;
    const std::uint64_t written = fill(*volume, last);
    EXPECT_GT(written, world.cache->size_sectors() * 4 / 5) << "the room that cached data had";
    EXPECT_LT(now() - begin, seconds(2));
    EXPECT_EQ(world.read(cached, 0, 128, 2), 2);
}

}  // namespace
}  // namespace uc::test
