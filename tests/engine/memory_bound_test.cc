// The index is much larger than what may be kept of it in memory.
#include "engine_world.h"

namespace uc::test {
namespace {

constexpr std::uint64_t kLimit = 256 << 10;
constexpr std::uint64_t kExtents = 44000;  // some 45 bytes each
// What is over the limit for a moment: leaves with keys that are not on disk yet, and those that
// requests have loaded while others were written.
constexpr std::uint64_t kSlack = kLimit / 4 + (640 << 10);

class MemoryBound : public testing::Test {
protected:
    MemoryBound()
        : world({.nbuckets = 32000, .bucket_sectors = 32}),
          backing(world.format({.sectors = 1 << 20})) {
        options.node_cache_bytes = kLimit;
    }
    // A block in every second place, so that no two extents become one.
    static std::uint64_t place(std::uint64_t i) { return i * 7919 % kExtents * 16; }
    void look() { most = std::max(most, world.set->btree_cache_bytes()); }

    EngineWorld world;
    WatchedDevice& backing;
    core::SetOptions options;
    std::uint64_t most = 0;
};

TEST_F(MemoryBound, HoldsWhileALargeIndexIsWrittenReadAndOpened) {
    SetVolume* volume = &world.start(backing, options);
    volume->options().sequential_cutoff_bytes = 0;
    for (std::uint64_t i = 0; i < kExtents; ++i) {
        ASSERT_TRUE(world.write(*volume, place(i), 8, 1));
        look();
    }
    ASSERT_TRUE(world.flush(*volume));
    EXPECT_LT(most, kLimit + kSlack);
    world.crash(sim::CrashKind::power_cut);
    volume = &world.start(backing, options);
    world.settle(minutes(1));  // what was replayed is written
    most = 0;
    look();
    for (std::uint64_t i = 0; i < kExtents; i += 5) {
        ASSERT_EQ(world.read(*volume, place(i), 8, 1), 1);
        look();
    }
    EXPECT_LT(most, kLimit + kSlack);
    most = 0;
    ASSERT_TRUE(world.run(world.set->collect_garbage()));
    look();
    EXPECT_LT(most, kLimit + kSlack);
    static_assert(kExtents * 24 > kLimit + kSlack, "or nothing is tested");
}

}  // namespace
}  // namespace uc::test
