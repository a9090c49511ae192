#include "policy/eviction.h"

#include <gtest/gtest.h>

#include <set>

namespace uc::policy {
namespace {

TEST(LruScore, IsPriorityAboveTheMinimumTimesSectors) {
    // (30000 - 20000 + (32768 - 20000)/8) * 100 = (10000 + 1596) * 100
    EXPECT_EQ(lru_score(30000, 20000, 100), 1159600u);
    EXPECT_EQ(lru_score(20000, 20000, 100), 159600u);
}

TEST(LruScore, PrefersTheEmptierOfTwoEquallyColdBuckets) {
    EXPECT_LT(lru_score(100, 100, 10), lru_score(100, 100, 20));
    EXPECT_EQ(lru_score(100, 100, 0), 0u);
}

TEST(LruScore, TakesAPriorityBelowAStaleMinimumForTheMinimum) {
    EXPECT_EQ(lru_score(5, 100, 10), lru_score(100, 100, 10));
}

TEST(FifoCursor, GoesRoundInNumberOrder) {
    FifoCursor cursor(3, 6);
    for (const BucketIndex expected : {3u, 4u, 5u, 3u}) EXPECT_EQ(cursor.take(), expected);
}

TEST(FifoCursor, FindsNothingInAnEmptyRange) {
    EXPECT_EQ(FifoCursor(3, 3).take(), std::nullopt);
}

TEST(RandomBucket, ReachesEveryBucketOfTheRangeAndNoOther) {
    Rng rng(1);
    std::set<BucketIndex> seen;
    for (int i = 0; i < 200; ++i) seen.insert(random_bucket(rng, 10, 14).value());
    EXPECT_EQ(seen, (std::set<BucketIndex>{10, 11, 12, 13}));
    EXPECT_EQ(random_bucket(rng, 10, 10), std::nullopt);
}

}  // namespace
}  // namespace uc::policy
