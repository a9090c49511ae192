#include "policy/sequential.h"

#include <gtest/gtest.h>

#include <list>

#include "base/rng.h"

namespace uc::policy {
namespace {

Instant at_ms(std::int64_t ms) {
    return {std::chrono::milliseconds(ms)};
}

TEST(SequentialRuns, GrowsARunWhileRequestsFollowEachOther) {
    SequentialRuns runs;
    EXPECT_EQ(runs.observe(100, 8, at_ms(0)), 8u);
    EXPECT_EQ(runs.observe(108, 8, at_ms(1)), 16u);
    EXPECT_EQ(runs.observe(116, 100, at_ms(2)), 116u);
}

TEST(SequentialRuns, DoesNotTakeTheUntouchedTableForARunThatEndsAtSectorZero) {
    SequentialRuns runs;
    EXPECT_EQ(runs.observe(0, 8, at_ms(0)), 8u);
    EXPECT_EQ(runs.observe(0, 8, at_ms(0)), 8u);
}

TEST(SequentialRuns, FollowsTwoInterleavedStreams) {
    SequentialRuns runs;
    std::uint64_t a = 0, b = 0;
    for (std::uint64_t i = 0; i < 10; ++i) {
        a = runs.observe(1000 + 8 * i, 8, at_ms(0));
        b = runs.observe(900000 + 16 * i, 16, at_ms(0));
    }
    EXPECT_EQ(a, 80u);
    EXPECT_EQ(b, 160u);
}

TEST(SequentialRuns, ForgetsARunFiveSecondsAfterItsLastUse) {
    SequentialRuns runs;
    runs.observe(0, 8, at_ms(0));
    EXPECT_EQ(runs.observe(8, 8, at_ms(4999)), 16u);
    EXPECT_EQ(runs.observe(16, 8, at_ms(9999)), 8u);
}

TEST(SequentialRuns, ReplacesTheLeastRecentlyUsedOf128Runs) {
    SequentialRuns runs;
    for (std::uint64_t i = 0; i < 128; ++i) runs.observe(i * 1000, 8, at_ms(0));
    EXPECT_EQ(runs.observe(8, 8, at_ms(1)), 16u);    // run 0 is now the newest, run 1 the oldest
    runs.observe(500000, 8, at_ms(1));               // replaces run 1
    EXPECT_EQ(runs.observe(1008, 8, at_ms(1)), 8u);  // gone; replaces run 2
    EXPECT_EQ(runs.observe(16, 8, at_ms(1)), 24u);
    EXPECT_EQ(runs.observe(3008, 8, at_ms(1)), 16u);
}

TEST(SequentialRuns, StreamDoesNotMakeRandomRequestsBesideItLong) {
    SequentialRuns runs;
    for (std::uint64_t i = 0; i < 50; ++i) {
        runs.observe(2048 * i, 2048, at_ms(0));
        EXPECT_EQ(runs.observe(10000000 + 1000 * i, 8, at_ms(0)), 8u);
    }
}

// The table against the plain definition: a list ordered by last use.
TEST(SequentialRuns, AgreesWithAListOfRuns) {
    struct Run {
        std::uint64_t end, sectors;
        Instant expires;
    };
    std::list<Run> model;  // newest first
    SequentialRuns runs;
    Rng rng(7);
    std::int64_t ms = 0;
    for (int step = 0; step < 20000; ++step) {
        ms += static_cast<std::int64_t>(rng.below(100));
        const std::uint64_t start = rng.below(300) * 8;
        auto it = model.begin();
        while (it != model.end() && (it->end != start || at_ms(ms) >= it->expires)) ++it;
        Run run{0, 0, {}};
        if (it != model.end()) {
            run = *it;
            model.erase(it);
        } else if (model.size() == SequentialRuns::kRuns) {
            model.pop_back();
        }
        run = {start + 8, run.sectors + 8, at_ms(ms) + SequentialRuns::kExpiry};
        model.push_front(run);
        ASSERT_EQ(runs.observe(start, 8, at_ms(ms)), run.sectors) << "step " << step;
    }
}

}  // namespace
}  // namespace uc::policy
