#include "admin/stats_account.h"

#include <gtest/gtest.h>

namespace uc::admin {
namespace {

StatsAccount::Counts hits(std::uint64_t n) {
    StatsAccount::Counts counts{};
    counts[static_cast<std::size_t>(Counter::cache_hits)] = n;
    return counts;
}

StatsAccount counted(std::uint64_t n, unsigned ticks) {
    StatsAccount account;
    account.add(hits(n));
    for (unsigned i = 0; i < ticks; ++i) account.tick();
    return account;
}

TEST(StatsAccount, TheTotalIsTheSum) {
    EXPECT_EQ(counted(1000, 5000).value(Window::total, Counter::cache_hits), 1000u);
}

TEST(StatsAccount, TheAveragesKnowNothingBeforeTheFirstTick) {
    EXPECT_EQ(counted(1000, 0).value(Window::five_minute, Counter::cache_hits), 0u);
}

TEST(StatsAccount, EachTickTakesOneThirtySecondOfTheShortAverage) {
    EXPECT_EQ(counted(1024, 1).value(Window::five_minute, Counter::cache_hits), 992u);
    EXPECT_EQ(counted(1024, 2).value(Window::five_minute, Counter::cache_hits), 961u);
}

TEST(StatsAccount, TheHourDecaysEveryTwelfthTickAndTheDayEvery288th) {
    EXPECT_EQ(counted(1024, 11).value(Window::hour, Counter::cache_hits), 1024u);
    EXPECT_EQ(counted(1024, 12).value(Window::hour, Counter::cache_hits), 992u);
    EXPECT_EQ(counted(1024, 287).value(Window::day, Counter::cache_hits), 1024u);
    EXPECT_EQ(counted(1024, 288).value(Window::day, Counter::cache_hits), 992u);
}

TEST(StatsAccount, TheShortAverageIsHalfAfterFiveMinutes) {
    const std::uint64_t left =
        counted(1'000'000, 22).value(Window::five_minute, Counter::cache_hits);
    EXPECT_GT(left, 490'000u);
    EXPECT_LT(left, 510'000u);
}

TEST(StatsAccount, ClearingBeginsTheTotalAnewAndLeavesTheAverages) {
    StatsAccount account = counted(1024, 1);
    account.clear();
    EXPECT_EQ(account.value(Window::total, Counter::cache_hits), 0u);
    EXPECT_EQ(account.value(Window::five_minute, Counter::cache_hits), 992u);
}

TEST(StatsAccount, TheHitRatioIsPerCentOfHitsAndMisses) {
    StatsAccount account = counted(30, 0);
    EXPECT_EQ(account.value(Window::total, Counter::cache_hit_ratio), 100u);
    StatsAccount::Counts misses{};
    misses[static_cast<std::size_t>(Counter::cache_misses)] = 10;
    account.add(misses);
    EXPECT_EQ(account.value(Window::total, Counter::cache_hit_ratio), 75u);
    EXPECT_EQ(account.value(Window::hour, Counter::cache_hit_ratio), 0u);
}

TEST(StatsAccount, HugeCountsDecayWithoutOverflow) {
    const std::uint64_t huge = std::uint64_t{1} << 46;
    EXPECT_EQ(counted(huge, 1).value(Window::five_minute, Counter::cache_hits), huge / 32 * 31);
}

}  // namespace
}  // namespace uc::admin
