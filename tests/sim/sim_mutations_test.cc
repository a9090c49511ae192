// The simulator must notice an engine that breaks a rule: each deliberate fault makes at least one
// of the seeds fail that pass without it.

#include <gtest/gtest.h>

#include <string>

#include "sim/seed_runner.h"

namespace uc::sim {
namespace {

constexpr SeedRange kSeeds{1, 500};

// The first failure that was seen; empty if every seed passed.
std::string first_failure(bool Mutations::*fault) {
    Mutations mutations;
    mutations.*fault = true;
    std::string found;
    const std::string problem =
        run_seeds(kSeeds, 2, mutations, [&](std::uint64_t seed, const std::string& failure) {
            if (!failure.empty()) found = "seed " + std::to_string(seed) + ": " + failure;
            return found.empty();
        });
    EXPECT_EQ(problem, "");
    return found;
}

TEST(SimMutations, NoticesJournalEntriesWithoutFlushBefore) {
    EXPECT_NE(first_failure(&Mutations::skip_journal_flush), "");
}

TEST(SimMutations, NoticesBucketsReusedBeforeTheirGenerationIsDurable) {
    EXPECT_NE(first_failure(&Mutations::reuse_before_gen_durable), "");
}

TEST(SimMutations, NoticesDirtyBitsClearedBeforeTheBackingFlush) {
    EXPECT_NE(first_failure(&Mutations::clear_dirty_before_backing_flush), "");
}

TEST(SimMutations, NoticesFillsThatWinAgainstWrites) {
    EXPECT_NE(first_failure(&Mutations::fill_wins_against_write), "");
}

TEST(SimMutations, NoticesFlushesAnsweredBeforeTheJournal) {
    EXPECT_NE(first_failure(&Mutations::ack_before_key), "");
}

TEST(SimMutations, NoticesBackingWritesBeforeADurableInvalidation) {
    EXPECT_NE(first_failure(&Mutations::skip_durable_invalidation), "");
}

TEST(SimMutations, NoticesParentUpdatesWithoutFreedNodeRecord) {
    EXPECT_NE(first_failure(&Mutations::skip_freed_node_record), "");
}

TEST(SimMutations, NoticesDirtyDataUnderACleanSuperblock) {
    EXPECT_NE(first_failure(&Mutations::skip_dirty_state), "");
}

}  // namespace
}  // namespace uc::sim
