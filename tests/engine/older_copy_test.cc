// A set whose parts do not belong together any more: an older copy of the cache device, a backing
// device that somebody else has used. What the superblocks show is refused, with what to do.
#include "engine_world.h"

namespace uc::test {
namespace {

class OlderCopy : public testing::Test {
protected:
    OlderCopy() : backing(world.format()) {}

    // Version 1 is dirty in the copy; the set went on, and wrote version 2 back.
    void put_copy_of_dirty_set_back() {
        SetVolume& volume = world.start(backing);
        EXPECT_TRUE(world.write(volume, 0, 64, 1));
        EXPECT_TRUE(world.stop());
        const auto copy = world.cache->disk.snapshot();
        SetVolume& again = world.start(backing);
        EXPECT_TRUE(world.write(again, 0, 64, 2));
        again.options().writeback_running = true;
        again.options_changed();
        EXPECT_TRUE(world.wait_until(
            [&] { return world.superblock_of(backing).state() == BackingState::clean; },
            minutes(10)));
        EXPECT_TRUE(world.stop());
        EXPECT_TRUE(world.on_backing(backing, 0, 64, 2, true));
        world.cache->disk.restore(*copy);
        EXPECT_TRUE(world.open()) << world.report.refusal;
    }
    std::string refusal(AttachMode mode) {
        const std::uint64_t before = backing.writes;
        const auto added = world.add(backing, mode);
        EXPECT_FALSE(added);
        EXPECT_EQ(backing.writes, before);
        return world.report.refusal;
    }

    EngineWorld world;
    WatchedDevice& backing;
};

TEST_F(OlderCopy, WithDirtyDataOfACleanDeviceIsRefused) {
    put_copy_of_dirty_set_back();
    const std::string said = refusal(AttachMode::known);
    EXPECT_NE(said.find("marked clean, but the cache has 64 dirty sectors"), said.npos) << said;
    EXPECT_NE(said.find("older copy"), said.npos) << said;
    EXPECT_NE(said.find("--attach"), said.npos) << said;
}

TEST_F(OlderCopy, IsUsedIfAHumanSaysSo) {
    put_copy_of_dirty_set_back();
    const auto added = world.add(backing, AttachMode::attach);
    ASSERT_TRUE(added) << world.report.refusal;
    EXPECT_EQ(world.read(**added, 0, 64, 1), 1);
}

TEST_F(OlderCopy, ThatDoesNotKnowADirtyDeviceIsRefused) {
    ASSERT_TRUE(world.open());
    ASSERT_TRUE(world.stop());
    const auto copy = world.cache->disk.snapshot();
    SetVolume& volume = world.start(backing);
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.stop());
    world.cache->disk.restore(*copy);
    ASSERT_TRUE(world.open());
    for (const AttachMode mode : {AttachMode::known, AttachMode::attach}) {
        const std::string said = refusal(mode);
        EXPECT_NE(said.find("newest data are elsewhere"), said.npos) << said;
    }
}

TEST_F(OlderCopy, BackingDeviceThatRanWithoutItsSetGetsNothingOfTheOldContent) {
    SetVolume& volume = world.start(backing);
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.run(volume.write_back_all()));
    ASSERT_TRUE(world.stop());
    // As the kernel does it when a user forces the device to run, and writes.
    ondisk::Superblock sb = world.superblock_of(backing);
    sb.set_state(BackingState::stale);
    backing.disk.poke(ondisk::kSuperblockSector, ondisk::encode_superblock(sb));
    backing.disk.poke(sb.data_offset(), pattern(0, 64, 2).span());
    ASSERT_TRUE(world.open());
    const auto added = world.add(backing, AttachMode::known);
    ASSERT_TRUE(added) << world.report.refusal;
    EXPECT_EQ(world.read(**added, 0, 64, 2), 2);
}

TEST_F(OlderCopy, BackingDeviceThatJoinedAnotherSetIsRefusedByName) {
    SetVolume& volume = world.start(backing);
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.stop());
    ondisk::Superblock sb = world.superblock_of(backing);
    sb.set_uuid.bytes.fill(0x77);
    sb.set_state(BackingState::clean);
    backing.disk.poke(ondisk::kSuperblockSector, ondisk::encode_superblock(sb));
    ASSERT_TRUE(world.open());
    const std::string said = refusal(AttachMode::known);
    EXPECT_NE(said.find("77777777-7777-7777-7777-777777777777"), said.npos) << said;
}

}  // namespace
}  // namespace uc::test
