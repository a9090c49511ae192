// The engine against 500 seeds of crashes, lost and torn writes. A failure prints the line that
// replays it.

#include <gtest/gtest.h>

#include <string>

#include "sim/scenario.h"
#include "sim/seed_runner.h"

namespace uc::sim {
namespace {

void expect_all_pass(SeedRange range) {
    std::uint64_t reported = 0;
    const std::string problem =
        run_seeds(range, 1, Mutations{}, [&](std::uint64_t seed, const std::string& failure) {
            ++reported;
            EXPECT_EQ(failure, "") << "ucsim --seed " << seed;
            return true;
        });
    EXPECT_EQ(problem, "");
    EXPECT_EQ(reported, range.count());
}

TEST(SimSeeds, FirstHalfLosesNothing) {
    expect_all_pass({1, 250});
}

TEST(SimSeeds, SecondHalfLosesNothing) {
    expect_all_pass({251, 500});
}

TEST(SimSeeds, SameSeedGivesTheSameRun) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        ScenarioOptions options;
        options.seed = seed;
        const ScenarioResult first = run_scenario(options);
        const ScenarioResult second = run_scenario(options);
        EXPECT_EQ(first.hash, second.hash) << "ucsim --seed " << seed;
        EXPECT_EQ(first.events, second.events) << "ucsim --seed " << seed;
        EXPECT_GT(first.events, 100U);
    }
}

}  // namespace
}  // namespace uc::sim
