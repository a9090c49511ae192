#include "policy/congestion.h"

#include <gtest/gtest.h>

namespace uc::policy {
namespace {

constexpr std::uint32_t kThreshold = 2000;

Duration us(std::int64_t n) {
    return Duration(n * 1024);
}
Duration ms(std::int64_t n) {
    return us(n * 1024);
}
Instant at(Duration since_start) {
    return {since_start};
}

TEST(Congestion, IsNotThereAtFirst) {
    const Congestion congestion;
    EXPECT_EQ(congestion.limit_sectors(at(Duration(0)), 0), 0u);
}

TEST(Congestion, FallsByTheMillisecondsOfASlowRequest) {
    Congestion congestion;
    congestion.sample(ms(5), kThreshold, at(ms(100)));
    EXPECT_EQ(congestion.level(), -5);
}

TEST(Congestion, IgnoresLatencyAtTheThresholdAndAThresholdOfZero) {
    Congestion congestion;
    congestion.sample(us(2000), kThreshold, at(ms(100)));
    congestion.sample(ms(500), 0, at(ms(100)));
    EXPECT_EQ(congestion.level(), 0);
}

TEST(Congestion, StaysAboveItsFloor) {
    Congestion congestion;
    congestion.sample(ms(5000), kThreshold, at(ms(100)));
    congestion.sample(ms(5000), kThreshold, at(ms(100)));
    EXPECT_EQ(congestion.level(), -1024);
}

TEST(Congestion, RecoversByOneForEachFastRequest) {
    Congestion congestion;
    congestion.sample(ms(2), kThreshold, at(ms(100)));
    for (int i = 0; i < 5; ++i) congestion.sample(us(10), kThreshold, at(ms(100)));
    EXPECT_EQ(congestion.level(), 0);
}

TEST(Congestion, LimitIsExponentialInTheLevel) {
    Congestion congestion;
    congestion.sample(ms(512), kThreshold, at(ms(100)));
    // i = -512 + 1024 = 512 = 8*64: 2^8.
    EXPECT_EQ(congestion.limit_sectors(at(ms(100)), 0), 256u);
    // 32 steps later i = 544: (64 + 32) << 8 >> 6.
    EXPECT_EQ(congestion.limit_sectors(at(ms(132)), 0), 384u);
}

TEST(Congestion, RandomWordTakesItsOneBitsOff) {
    Congestion congestion;
    congestion.sample(ms(512), kThreshold, at(ms(100)));
    EXPECT_EQ(congestion.limit_sectors(at(ms(100)), 0xffffffff), 224u);
    EXPECT_EQ(congestion.limit_sectors(at(ms(100)), 0x00000101), 254u);
}

TEST(Congestion, AtWorstEverythingBypasses) {
    Congestion congestion;
    congestion.sample(ms(5000), kThreshold, at(ms(100)));
    EXPECT_EQ(congestion.limit_sectors(at(ms(100)), 0x0000ffff), 1u);
}

TEST(Congestion, PassesWithTime) {
    Congestion congestion;
    congestion.sample(ms(100), kThreshold, at(ms(1000)));
    EXPECT_NE(congestion.limit_sectors(at(ms(1099)), 0), 0u);
    EXPECT_EQ(congestion.limit_sectors(at(ms(1100)), 0), 0u);
}

}  // namespace
}  // namespace uc::policy
