#include "policy/writeback_rate.h"

#include <gtest/gtest.h>

namespace uc::policy {
namespace {

Instant at_ms(std::int64_t ms) {
    return {std::chrono::milliseconds(ms)};
}

// A cache of 1000 buckets of 1024 sectors, one backing device: target = 102400 sectors.
RateInputs inputs(std::uint64_t dirty) {
    RateInputs in;
    in.dirty = dirty;
    in.backing_sectors = 1 << 20;
    in.all_backing_sectors = 1 << 20;
    in.buckets = 1000;
    in.available_buckets = 1000;
    in.bucket_sectors = 1024;
    return in;
}

TEST(WritebackRate, StartsAt1024SectorsPerSecond) {
    EXPECT_EQ(WritebackRate().rate(), 1024u);
}

TEST(WritebackRate, IsAFortiethOfTheErrorPlusTheIntegral) {
    WritebackRate rate;
    rate.update(inputs(142400), at_ms(10));  // next() is overdue: no integral
    EXPECT_EQ(rate.terms().target, 102400);
    EXPECT_EQ(rate.terms().proportional, 1000);
    EXPECT_EQ(rate.terms().integral, 0);
    EXPECT_EQ(rate.terms().change, -24);
    EXPECT_EQ(rate.rate(), 1000u);
}

TEST(WritebackRate, IntegralGrowsWhileTheNextWriteIsNotOverdue) {
    WritebackRate rate;
    rate.update(inputs(142400), at_ms(0));  // 40000 * 5 / 10000
    EXPECT_EQ(rate.terms().integral, 20);
    EXPECT_EQ(rate.rate(), 1020u);
    rate.update(inputs(142400), at_ms(0));
    EXPECT_EQ(rate.terms().integral, 40);
    rate.update(inputs(142400), at_ms(1));  // 1 ms late: no more
    EXPECT_EQ(rate.terms().integral, 40);
}

TEST(WritebackRate, IntegralShrinksBelowTheTargetOnlyWhileItIsPositive) {
    WritebackRate rate;
    rate.update(inputs(142400), at_ms(0));   // integral 200000
    rate.update(inputs(62400), at_ms(500));  // -40000 * 5: integral 0
    EXPECT_EQ(rate.terms().integral, 0);
    rate.update(inputs(62400), at_ms(500));
    EXPECT_EQ(rate.terms().integral, 0);
}

TEST(WritebackRate, NeverFallsBelowTheMinimum) {
    WritebackRate rate;
    rate.update(inputs(400), at_ms(10));
    EXPECT_EQ(rate.terms().proportional, -2550);
    EXPECT_EQ(rate.rate(), 8u);
}

TEST(WritebackRate, DividesTheTargetByTheSizesOfTheBackingDevices) {
    WritebackRate rate;
    RateInputs in = inputs(1000);
    in.all_backing_sectors = 4 << 20;
    rate.update(in, at_ms(10));
    EXPECT_EQ(rate.terms().target, 25600);
}

TEST(WritebackRate, DataOfFlashOnlyVolumesDoesNotCountAsCache) {
    WritebackRate rate;
    RateInputs in = inputs(1000);
    in.flash_only_dirty = 24000;
    rate.update(in, at_ms(10));
    EXPECT_EQ(rate.terms().target, 100000);
}

TEST(WritebackRate, DoesNothingWithoutDirtyDataOrWithPercentZero) {
    WritebackRate rate;
    rate.update(inputs(0), at_ms(10));
    RateInputs in = inputs(500000);
    in.writeback_percent = 0;
    rate.update(in, at_ms(10));
    EXPECT_EQ(rate.rate(), 1024u);
}

struct FragmentCase {
    std::uint32_t in_use;
    std::uint64_t rate;
};
class WritebackRateFragment : public testing::TestWithParam<FragmentCase> {};

// 600 used buckets hold 120000 dirty sectors: 600*1024/120000 = 5 > 3; 120000/600 = 200 per bucket.
// The error alone asks for (120000 - 102400) / 40 = 440.
TEST_P(WritebackRateFragment, RaisesTheRateByHowFullTheCacheIs) {
    WritebackRate rate;
    RateInputs in = inputs(120000);
    in.available_buckets = 400;
    in.in_use_percent = GetParam().in_use;
    rate.update(in, at_ms(10));
    EXPECT_EQ(rate.rate(), GetParam().rate);
}
INSTANTIATE_TEST_SUITE_P(InUse, WritebackRateFragment,
                         testing::Values(FragmentCase{50, 440}, FragmentCase{52, 440},
                                         FragmentCase{57, 1400}, FragmentCase{58, 2000},
                                         FragmentCase{64, 14000}, FragmentCase{65, 200000}));

TEST(WritebackRate, FragmentTermNeedsBucketsThatAreLessThanAThirdFull) {
    WritebackRate rate;
    RateInputs in = inputs(160000);  // 600*1024/160000 = 3
    in.available_buckets = 400;
    in.in_use_percent = 65;
    rate.update(in, at_ms(10));
    EXPECT_EQ(rate.rate(), 1440u);
    in.dirty = 150000;  // 4
    in.consider_fragment = false;
    rate.update(in, at_ms(10));
    EXPECT_EQ(rate.rate(), 1190u);
}

TEST(WritebackRate, IsUnlimitedAfterSixIdleRoundsUntilTheNextRequest) {
    WritebackRate rate;
    for (int i = 0; i < 5; ++i) rate.update(inputs(142400), at_ms(10));
    EXPECT_EQ(rate.rate(), 1000u);
    rate.update(inputs(142400), at_ms(10));
    EXPECT_EQ(rate.rate(), WritebackRate::kLimit);
    rate.foreground_io();
    EXPECT_EQ(rate.rate(), 1000u);
}

TEST(WritebackRate, RoundsDuringACollectionAreNotIdle) {
    WritebackRate rate;
    RateInputs in = inputs(142400);
    for (int i = 0; i < 20; ++i) {
        in.collecting = i % 6 == 5;
        rate.update(in, at_ms(10));
        EXPECT_FALSE(rate.unlimited());
    }
}

TEST(WritebackPacing, NextWriteIsDueWhenTheSubmittedSectorsAreWorthTheirTime) {
    WritebackRate rate;
    rate.submitted(512, at_ms(0));  // half a second at 1024 per second
    EXPECT_EQ(rate.next(), at_ms(500));
    rate.submitted(1024, at_ms(100));
    EXPECT_EQ(rate.next(), at_ms(1500));
}

TEST(WritebackPacing, IsNeverMoreThanTwoAndAHalfSecondsAhead) {
    WritebackRate rate;
    rate.submitted(1024 * 60, at_ms(1000));
    EXPECT_EQ(rate.next(), at_ms(3500));
}

TEST(WritebackPacing, CatchesUpNoMoreThanTwoSeconds) {
    WritebackRate rate;
    rate.submitted(0, at_ms(60000));
    EXPECT_EQ(rate.next(), at_ms(58000));
}

TEST(WritebackPacing, UnlimitedRateNeverWaits) {
    WritebackRate rate;
    for (int i = 0; i < 6; ++i) rate.update(inputs(142400), at_ms(10));
    rate.submitted(1 << 30, at_ms(5000));
    EXPECT_LT(rate.next(), at_ms(5000));
}

}  // namespace
}  // namespace uc::policy
