// A cache device that is formatted anew with the uuid of the set that was on it.
#include "engine_world.h"

namespace uc::test {
namespace {

TEST(RemadeSet, FindsNothingOfItsPredecessorsJournal) {
    EngineWorld world;
    const ondisk::Superblock blank = world.superblock_of(*world.cache);
    WatchedDevice& old_backing = world.format();
    SetVolume& old = world.start(old_backing);
    // An entry of one block each, so that the new ones are as long as those that they overwrite.
    for (std::uint64_t i = 0; i < 60; ++i) {
        ASSERT_TRUE(world.write(old, i * 64, 8, 1));
        ASSERT_TRUE(world.flush(old));
    }
    world.crash(sim::CrashKind::process_death);
    world.cache->disk.poke(ondisk::kSuperblockSector, ondisk::encode_superblock(blank));
    WatchedDevice& backing = world.format();
    SetVolume& volume = world.start(backing);
    ASSERT_TRUE(world.write(volume, 0, 8, 2));
    ASSERT_TRUE(world.flush(volume));
    world.crash(sim::CrashKind::process_death);
    ASSERT_EQ(world.problems(), std::vector<std::string>());
    ASSERT_TRUE(world.open()) << world.report.refusal;
    const auto added = world.add(backing, AttachMode::known);
    ASSERT_TRUE(added) << world.report.refusal;
    EXPECT_EQ(world.read(**added, 0, 8, 2), 2);
    for (std::uint64_t i = 1; i < 60; ++i) EXPECT_EQ(world.read(**added, i * 64, 8, 1), 0) << i;
}

}  // namespace
}  // namespace uc::test
