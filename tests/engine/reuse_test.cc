// A tiny cache whose buckets are reused hundreds of times: 8-bit generations wrap.
#include "engine_world.h"

namespace uc::test {
namespace {

class Reuse : public testing::TestWithParam<ondisk::Replacement> {};

TEST_P(Reuse, BucketsAreReusedOverTheWrapOfTheirGenerations) {
    EngineWorld world({.nbuckets = 520, .bucket_sectors = 32, .replacement = GetParam()});
    WatchedDevice& backing = world.format({.mode = CacheMode::writethrough});
    SetVolume* volume = &world.start(backing);
    volume->options().sequential_cutoff_bytes = 0;
    unsigned version = 0;
    const std::uint64_t span = 1 << 15;
    // Some 470 data buckets; the policy that takes them in turn reuses each 300 times.
    const std::uint64_t reuses = GetParam() == ondisk::Replacement::lru ? 300 : 20;
    for (std::uint64_t round = 0; world.set->stats().buckets_invalidated < 470 * reuses; ++round) {
        ASSERT_LT(round, 4000u) << "the cache takes no data any more";
        ++version;
        for (std::uint64_t at = 0; at < 16 * 64; at += 64) {
            const std::uint64_t sector = (round * 1024 + at) % span;
            ASSERT_TRUE(world.write(*volume, sector, 64, version));
        }
        ASSERT_TRUE(world.flush(*volume));
        world.settle(std::chrono::milliseconds(1500));
        const std::uint64_t newest = round * 1024 % span;
        ASSERT_EQ(world.read(*volume, newest, 1024, version), static_cast<int>(version));
    }
    EXPECT_GT(world.set->stats().gc_passes, 0u);
    EXPECT_EQ(world.run(world.set->check_invariants()), std::vector<std::string>());
    volume = &world.restart(backing);
    EXPECT_EQ(world.run(world.set->check_invariants()), std::vector<std::string>());
    EXPECT_GT(world.set->bucket_counts().clean, 0u) << "the cache is still used";
}

std::string policy_name(const testing::TestParamInfo<ondisk::Replacement>& policy) {
    switch (policy.param) {
        case ondisk::Replacement::lru:
            return "Lru";
        case ondisk::Replacement::fifo:
            return "Fifo";
        case ondisk::Replacement::random:
            return "Random";
    }
    return "";
}

INSTANTIATE_TEST_SUITE_P(Policies, Reuse,
                         testing::Values(ondisk::Replacement::lru, ondisk::Replacement::fifo,
                                         ondisk::Replacement::random),
                         policy_name);

}  // namespace
}  // namespace uc::test
