// Garbage collection of a whole set when a pass cannot read what it needs.
#include "outage_world.h"

namespace uc::test {
namespace {

// A small cache with many more extents than fit into a leaf, of which few are kept in memory.
class CollectorTrouble : public Outage {
protected:
    CollectorTrouble() : Outage({.nbuckets = 520, .bucket_sectors = 32}) {}

    SetVolume& start_small() {
        core::SetOptions options;
        options.node_cache_bytes = 1;
        SetVolume& volume = start(CacheMode::writethrough, options);
        volume.options().sequential_cutoff_bytes = 0;
        return volume;
    }
    // A block in every second place, so that no two extents become one.
    void write_some(SetVolume& volume) {
        for (unsigned i = 0; i < 128; ++i, next += 7919) {
            (void)world.write(volume, next % 4096 * 16, 8, 1);
        }
        (void)world.flush(volume);
        world.settle(std::chrono::milliseconds(1500));  // the clean copies are in the cache
    }
    unsigned told(const char* what) const {
        return static_cast<unsigned>(std::ranges::count_if(lines, [what](const std::string& line) {
            return line.find(what) != std::string::npos;
        }));
    }

    std::uint64_t next = 0;
};

TEST_F(CollectorTrouble, PassIsTriedAgainAfterAReadErrorAndBucketsAreReused) {
    SetVolume& volume = start_small();
    while (world.set->stats().gc_passes < 2) write_some(volume);
    // Requests need one leaf, a pass needs them all.
    std::uint64_t reads = 0, every = 3;
    world.cache->watch = [this, &reads, &every](const io::IoRequest& request) {
        const bool metadata = request.sector != ondisk::kSuperblockSector;
        world.cache->fail_reads =
            request.kind == io::IoKind::read && metadata && ++reads % every == 0;
    };
    for (unsigned i = 0; i < 100 && told("garbage collection failed") == 0; ++i) write_some(volume);
    ASSERT_EQ(told("garbage collection failed"), 1u);
    every = 1;
    const std::uint64_t passes = world.set->stats().gc_passes;
    world.settle(minutes(1));
    EXPECT_EQ(told("garbage collection failed"), 1u) << "told once, however often it is tried";
    EXPECT_EQ(world.set->stats().gc_passes, passes);
    world.cache->watch = nullptr;
    world.cache->heal();
    EXPECT_EQ(world.set->failure(), "");
    EXPECT_TRUE(
        world.wait_until([&] { return world.set->stats().gc_passes > passes; }, minutes(5)));
    EXPECT_TRUE(world.wait_until([&] { return told("works again") == 1; }, seconds(1)));
    // More often than generations allow without passes.
    const std::uint64_t before = world.set->stats().buckets_invalidated;
    const std::uint64_t enough = before + 520 * (alloc::kMaxGenDistance + 2);
    for (unsigned i = 0; i < 20000 && world.set->stats().buckets_invalidated < enough; ++i) {
        write_some(volume);
    }
    EXPECT_GE(world.set->stats().buckets_invalidated, enough);
    EXPECT_EQ(world.run(world.set->check_invariants()), std::vector<std::string>());
}

}  // namespace
}  // namespace uc::test
