// The priority table is lost at a moment when it alone knows which pointers are stale: the index is
// full of keys into buckets that were reused since.
#include <set>

#include "engine_world.h"

namespace uc::test {
namespace {

constexpr std::uint64_t kSectors = 1 << 17;  // more than three times the cache
constexpr std::uint64_t kStep = 16;
// Small buckets make small leaves, so that not every write of a leaf drops all stale keys.
constexpr CacheShape kShape{.nbuckets = 1280, .bucket_sectors = 32};

class RebuiltPriorities : public testing::Test {
protected:
    RebuiltPriorities() : world(kShape), backing(world.format({.sectors = kSectors})) {}

    SetVolume& start() {
        SetVolume& volume = world.start(backing);
        volume.options().sequential_cutoff_bytes = 0;
        volume.options_changed();
        return volume;
    }
    // Everything was in the cache once; most of it was evicted for the rest. Some is dirty. What
    // was evicted changed afterwards on the backing device alone: of that nothing is recorded.
    void fill(SetVolume& volume) {
        ASSERT_TRUE(world.run(volume.set_cache_mode(CacheMode::writethrough)));
        for (unsigned round = 1; round <= 2; ++round) {
            for (std::uint64_t at = 0; at < kSectors; at += kStep) {
                ASSERT_TRUE(world.write(volume, at, kStep, round));
            }
            world.settle(seconds(1));
        }
        ASSERT_TRUE(world.run(volume.set_cache_mode(CacheMode::writeback)));
        for (std::uint64_t at = 0; at < kSectors / 16; at += 2 * kStep) {
            ASSERT_TRUE(world.write(volume, at, kStep, 4));
        }
        ASSERT_TRUE(world.run(volume.set_cache_mode(CacheMode::none)));
        for (std::uint64_t at = kSectors / 2; at < kSectors; at += kStep) {
            const std::uint64_t before = volume.stats().cache_bypass_misses;
            ASSERT_EQ(world.read(volume, at, kStep, 2), 2);
            if (volume.stats().cache_bypass_misses == before) continue;
            ASSERT_TRUE(world.write(volume, at, kStep, 5));
            changed.insert(at);
        }
        ASSERT_TRUE(world.flush(volume));
        ASSERT_GT(volume.dirty_sectors(), kSectors / 64);
        ASSERT_GT(world.set->stats().buckets_invalidated, world.shape.nbuckets);
    }
    static bool is_dirty(std::uint64_t at) { return at < kSectors / 16 && at % (2 * kStep) == 0; }
    void expect_content(SetVolume& volume) {
        for (std::uint64_t at = 0; at < kSectors; at += kStep) {
            const int version = is_dirty(at) ? 4 : changed.contains(at) ? 5 : 2;
            ASSERT_EQ(world.read(volume, at, kStep, static_cast<unsigned>(version)), version) << at;
        }
    }
    BucketIndex first_member() const {
        const DiskBytes bytes(world.cache->disk);
        const sim::DiskChecker checker(bytes);
        return static_cast<BucketIndex>(checker.newest_entry().prio_bucket[0]);
    }
    void destroy_table() {
        const std::vector<std::byte> zeroes(world.shape.bucket_sectors * kSectorBytes);
        const std::uint64_t at = std::uint64_t{first_member()} * world.shape.bucket_sectors;
        world.cache->disk.poke(at, zeroes);
    }

    EngineWorld world;
    WatchedDevice& backing;
    std::set<std::uint64_t> changed;
};

TEST_F(RebuiltPriorities, NoStalePointerComesBackAndNoDirtyDataGoes) {
    SetVolume& volume = start();
    ASSERT_NO_FATAL_FAILURE(fill(volume));
    world.crash(sim::CrashKind::process_death);
    destroy_table();
    SetVolume& again = start();
    EXPECT_EQ(world.set->stats().prio_tables_rebuilt, 1u);
    EXPECT_GT(again.dirty_sectors(), kSectors / 64);
    expect_content(again);
    EXPECT_EQ(world.run(world.set->check_invariants()), std::vector<std::string>());
    ASSERT_TRUE(world.stop());
    EXPECT_EQ(world.problems(), std::vector<std::string>());
    expect_content(start());
}

TEST_F(RebuiltPriorities, TheNewTableIsDurableBeforeTheFirstRequest) {
    SetVolume& volume = start();
    ASSERT_NO_FATAL_FAILURE(fill(volume));
    world.crash(sim::CrashKind::process_death);
    destroy_table();
    start();
    world.crash(sim::CrashKind::power_cut);
    EXPECT_EQ(world.problems(), std::vector<std::string>());
    SetVolume& again = start();
    EXPECT_EQ(world.set->stats().prio_tables_rebuilt, 0u);
    expect_content(again);
}

TEST_F(RebuiltPriorities, ATableThatCannotBeReadIsAsGoodAsADamagedOne) {
    SetVolume& volume = start();
    ASSERT_NO_FATAL_FAILURE(fill(volume));
    world.crash(sim::CrashKind::process_death);
    world.cache->disk.add_fault(
        {.sector = first_member() * std::uint64_t{kShape.bucket_sectors} + 3,
         .sectors = 1,
         .reads = true,
         .writes = false,
         .times = 1});
    SetVolume& again = start();
    EXPECT_EQ(world.set->stats().prio_tables_rebuilt, 1u);
    expect_content(again);
}

}  // namespace
}  // namespace uc::test
