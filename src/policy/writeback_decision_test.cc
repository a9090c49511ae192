#include "policy/writeback_decision.h"

#include <gtest/gtest.h>

namespace uc::policy {
namespace {

WritebackFacts ordinary_write() {
    WritebackFacts facts;
    facts.mode = ondisk::CacheMode::writeback;
    return facts;
}

TEST(WritebackDecision, TakesAnOrdinaryWrite) {
    EXPECT_TRUE(want_writeback(ordinary_write()));
}

TEST(WritebackDecision, NeedsModeWriteback) {
    WritebackFacts facts = ordinary_write();
    for (const auto mode : {ondisk::CacheMode::writethrough, ondisk::CacheMode::writearound,
                            ondisk::CacheMode::none}) {
        facts.mode = mode;
        EXPECT_FALSE(want_writeback(facts));
    }
}

TEST(WritebackDecision, RefusesDiscardsAndDetachingVolumes) {
    WritebackFacts facts = ordinary_write();
    facts.discard = true;
    EXPECT_FALSE(want_writeback(facts));
    facts = ordinary_write();
    facts.detaching = true;
    EXPECT_FALSE(want_writeback(facts));
}

TEST(WritebackDecision, AboveTheFirstCutoffTakesOnlySynchronousAndPriorityWrites) {
    WritebackFacts facts = ordinary_write();
    facts.in_use_percent = 40;
    EXPECT_TRUE(want_writeback(facts));
    facts.in_use_percent = 41;
    EXPECT_FALSE(want_writeback(facts));
    facts.synchronous = true;
    EXPECT_TRUE(want_writeback(facts));
    facts.synchronous = false;
    facts.priority = true;
    EXPECT_TRUE(want_writeback(facts));
}

TEST(WritebackDecision, AboveTheSecondCutoffTakesNothing) {
    WritebackFacts facts = ordinary_write();
    facts.synchronous = facts.priority = facts.joins_dirty_stripe = true;
    facts.in_use_percent = 70;
    EXPECT_TRUE(want_writeback(facts));
    facts.in_use_percent = 71;
    EXPECT_FALSE(want_writeback(facts));
}

TEST(WritebackDecision, BypassedWriteIsNotTakenEvenIfSynchronous) {
    WritebackFacts facts = ordinary_write();
    facts.bypass = true;
    facts.synchronous = true;
    EXPECT_FALSE(want_writeback(facts));
}

TEST(WritebackDecision, WriteIntoADirtyStripeIsTakenAlthoughBypassedAndAboveTheFirstCutoff) {
    WritebackFacts facts = ordinary_write();
    facts.bypass = true;
    facts.in_use_percent = 60;
    facts.joins_dirty_stripe = true;
    EXPECT_TRUE(want_writeback(facts));
}

}  // namespace
}  // namespace uc::policy
