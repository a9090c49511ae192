// The engine against 380 seeds of crashes, lost and torn writes, errors and outages, in the object
// code that the product has. A failure prints the line that replays it.

#include <gtest/gtest.h>

#include <string>

#include "sim/scenario.h"
#include "sim/seed_runner.h"

namespace uc::sim {
namespace {

void expect_all_pass(SeedRange range) {
    std::uint64_t reported = 0;
    const Campaign campaign{range, 1, {}, {}};
    const std::string problem = run_seeds(campaign, [&](const SeedResult& result) {
        ++reported;
        EXPECT_EQ(result.failure, "") << replay_line(result.seed, {});
        return true;
    });
    EXPECT_EQ(problem, "");
    EXPECT_EQ(reported, range.count());
}

TEST(SimSeeds, FirstHalfLosesNothing) {
    expect_all_pass({1, 190});
}

TEST(SimSeeds, SecondHalfLosesNothing) {
    expect_all_pass({191, 380});
}

TEST(SimSeeds, SameSeedGivesTheSameRun) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        ScenarioOptions options;
        options.seed = seed;
        const ScenarioResult first = run_scenario(options);
        const ScenarioResult second = run_scenario(options);
        EXPECT_EQ(first.hash, second.hash) << replay_line(seed, {});
        EXPECT_EQ(first.events, second.events) << replay_line(seed, {});
        EXPECT_GT(first.events, 100U);
    }
}

}  // namespace
}  // namespace uc::sim
