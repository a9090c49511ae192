// Dirty data that a human gives up.
#include "outage_world.h"

namespace uc::test {
namespace {

class Abandon : public Outage {};

TEST_F(Abandon, VolumeOfACacheThatIsGoneGoesOnWithTheBackingDevice) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    read_aside(volume, 128, 64);
    world.settle(seconds(3));
    const auto lost = world.run(world.set->dirty_ranges(volume.uuid()));
    ASSERT_TRUE(lost);
    const std::uint64_t offset = world.superblock_of(*backing).data_offset();
    EXPECT_EQ(lost->ranges, (std::vector<core::SectorRange>{{128 + offset, 192 + offset}}));
    EXPECT_TRUE(lost->complete);
    ASSERT_TRUE(world.run(world.set->abandon(volume)));
    ASSERT_TRUE(world.wait_until([&] { return read_done.has_value(); }, seconds(5)));
    EXPECT_TRUE(*read_done) << "what the backing device has";
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::stale);
    EXPECT_TRUE(world.write(volume, 0, 64, 7));
    EXPECT_TRUE(world.flush(volume));
    EXPECT_EQ(world.read(volume, 0, 64, 7), 7);
}

TEST_F(Abandon, ReturningCacheNeverBringsItsDataBackAndLetsThemGo) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    (void)world.flush(volume);
    (void)world.read_result(volume, 128, 64);
    ASSERT_TRUE(world.run(world.set->abandon(volume)));
    EXPECT_TRUE(world.write(volume, 128, 64, 9));
    EXPECT_TRUE(world.flush(volume));
    (void)world.stop();
    world.cache->heal();
    SetVolume& again = world.start(*backing);
    EXPECT_EQ(world.read(again, 128, 64, 9), 9);
    EXPECT_EQ(again.dirty_sectors(), 0u);
    world.settle(seconds(5));
    EXPECT_EQ(world.set->bucket_counts().dirty, 0u) << "nobody could ever write them back";
    EXPECT_EQ(world.run(world.set->check_invariants()), std::vector<std::string>());
}

TEST_F(Abandon, VolumeWhoseCacheIsInServiceIsNotAbandoned) {
    SetVolume& volume = start_dirty();
    EXPECT_FALSE(world.run(world.set->abandon(volume)));
    EXPECT_EQ(world.read(volume, 128, 64, 2), 2);
    EXPECT_EQ(volume.dirty_sectors(), 64u);
}

TEST_F(Abandon, DeviceThatIsGoneIsForgottenAndTheOthersKeepTheirs) {
    SetVolume& first = start_dirty();
    const ondisk::Uuid uuid = first.uuid();
    WatchedDevice& other = world.format();
    const auto second = world.add(other);
    ASSERT_TRUE(second);
    ASSERT_TRUE(world.write(**second, 0, 64, 4));
    EXPECT_FALSE(world.run(world.set->forget_device(uuid))) << "it is in service";
    ASSERT_TRUE(world.stop());
    SetVolume& kept = world.start(other);
    const auto lost = world.run(world.set->dirty_ranges(uuid));
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->dirty_sectors, 64u);
    ASSERT_TRUE(world.run(world.set->forget_device(uuid)));
    EXPECT_FALSE(world.run(world.set->dirty_ranges(uuid)));
    EXPECT_EQ(world.set->bucket_counts().dirty, 1u);
    EXPECT_EQ(world.read(kept, 0, 64, 4), 4);
    EXPECT_FALSE(world.run(world.set->forget_device(ondisk::Uuid()))) << "no uuid at all";
    ASSERT_TRUE(world.stop());
    EXPECT_EQ(world.problems(), std::vector<std::string>());
    // It comes back after all: the set does not know it, and it is dirty.
    ASSERT_TRUE(world.open());
    EXPECT_FALSE(world.add(*backing));
}

TEST_F(Abandon, ForgettingSurvivesACrashRightAfterIt) {
    SetVolume& first = start_dirty();
    const ondisk::Uuid uuid = first.uuid();
    ASSERT_TRUE(world.stop());
    ASSERT_TRUE(world.open());
    ASSERT_TRUE(world.run(world.set->forget_device(uuid)));
    world.crash(sim::CrashKind::power_cut);
    ASSERT_TRUE(world.open()) << world.report.refusal;
    world.settle(seconds(5));
    EXPECT_EQ(world.set->bucket_counts().dirty, 0u);
    ASSERT_TRUE(world.stop());
    EXPECT_EQ(world.problems(), std::vector<std::string>());
}

}  // namespace
}  // namespace uc::test
