#include "policy/bypass.h"

#include <gtest/gtest.h>

namespace uc::policy {
namespace {

using ondisk::CacheMode;

BypassFacts ordinary_read() {
    BypassFacts facts;
    facts.mode = CacheMode::writethrough;
    facts.start = 64;
    facts.sectors = 8;
    facts.block_sectors = 8;
    facts.sequential_cutoff_bytes = 4 << 20;
    facts.run_sectors = 8;
    return facts;
}

BypassReason decide_bypass(const BypassFacts& facts) {
    const BypassReason reason = bypass_by_rule(facts);
    return reason == BypassReason::none ? bypass_by_run(facts) : reason;
}

TEST(Bypass, CachesAnOrdinaryRequest) {
    EXPECT_EQ(decide_bypass(ordinary_read()), BypassReason::none);
}

TEST(Bypass, NeverCachesADiscard) {
    BypassFacts facts = ordinary_read();
    facts.write = facts.discard = facts.detaching = true;
    EXPECT_EQ(decide_bypass(facts), BypassReason::discard);
}

TEST(Bypass, CachesNothingWhileDetaching) {
    BypassFacts facts = ordinary_read();
    facts.detaching = true;
    EXPECT_EQ(decide_bypass(facts), BypassReason::detaching);
}

TEST(Bypass, StopsAbove95PerCentInUse) {
    BypassFacts facts = ordinary_read();
    facts.in_use_percent = 95;
    EXPECT_EQ(decide_bypass(facts), BypassReason::none);
    facts.in_use_percent = 96;
    EXPECT_EQ(decide_bypass(facts), BypassReason::full);
}

TEST(Bypass, ModeNoneCachesNothing) {
    BypassFacts facts = ordinary_read();
    facts.mode = CacheMode::none;
    EXPECT_EQ(decide_bypass(facts), BypassReason::mode);
}

TEST(Bypass, WritearoundCachesReadsOnly) {
    BypassFacts facts = ordinary_read();
    facts.mode = CacheMode::writearound;
    EXPECT_EQ(decide_bypass(facts), BypassReason::none);
    facts.write = true;
    EXPECT_EQ(decide_bypass(facts), BypassReason::mode);
}

TEST(Bypass, UnalignedStartOrLengthBypasses) {
    BypassFacts facts = ordinary_read();
    facts.start = 65;
    EXPECT_EQ(decide_bypass(facts), BypassReason::unaligned);
    facts = ordinary_read();
    facts.sectors = 12;
    EXPECT_EQ(decide_bypass(facts), BypassReason::unaligned);
}

TEST(Bypass, RunThatReachesTheCutoffBypasses) {
    BypassFacts facts = ordinary_read();
    facts.run_sectors = 8191;
    EXPECT_EQ(decide_bypass(facts), BypassReason::none);
    facts.run_sectors = 8192;
    EXPECT_EQ(decide_bypass(facts), BypassReason::sequential);
}

TEST(Bypass, CutoffOfZeroDisablesDetection) {
    BypassFacts facts = ordinary_read();
    facts.run_sectors = 1 << 30;
    facts.sequential_cutoff_bytes = 0;
    EXPECT_FALSE(needs_run_length(facts));
    EXPECT_EQ(decide_bypass(facts), BypassReason::none);
}

TEST(Bypass, CongestionBypassesRunsOfItsLimit) {
    BypassFacts facts = ordinary_read();
    facts.sequential_cutoff_bytes = 0;
    facts.congestion_limit_sectors = 9;
    EXPECT_TRUE(needs_run_length(facts));
    EXPECT_EQ(decide_bypass(facts), BypassReason::none);
    facts.congestion_limit_sectors = 8;
    EXPECT_EQ(decide_bypass(facts), BypassReason::congested);
}

TEST(Bypass, NamesTheFirstReasonThatApplies) {
    BypassFacts facts = ordinary_read();
    facts.in_use_percent = 99;
    facts.mode = CacheMode::none;
    facts.start = 1;
    facts.run_sectors = 1 << 20;
    facts.congestion_limit_sectors = 1;
    EXPECT_EQ(decide_bypass(facts), BypassReason::full);
    facts.in_use_percent = 0;
    EXPECT_EQ(decide_bypass(facts), BypassReason::mode);
    facts.mode = CacheMode::writeback;
    EXPECT_EQ(decide_bypass(facts), BypassReason::unaligned);
    facts.start = 0;
    EXPECT_EQ(decide_bypass(facts), BypassReason::sequential);
    facts.sequential_cutoff_bytes = 0;
    EXPECT_EQ(decide_bypass(facts), BypassReason::congested);
}

}  // namespace
}  // namespace uc::policy
