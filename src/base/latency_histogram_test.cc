#include "base/latency_histogram.h"

#include <gtest/gtest.h>

namespace uc {
namespace {

TEST(LatencyHistogram, CountsWhatTakesAsLongAsALimitBelowIt) {
    LatencyHistogram histogram;
    histogram.add(LatencyHistogram::limit(3));
    histogram.add(LatencyHistogram::limit(3) + Duration(1));
    EXPECT_EQ(histogram.in_bucket(3), 1u);
    EXPECT_EQ(histogram.in_bucket(4), 1u);
}

TEST(LatencyHistogram, HasAPlaceForTheShortestAndTheLongest) {
    LatencyHistogram histogram;
    histogram.add(Duration(0));
    histogram.add(std::chrono::hours(1));
    EXPECT_EQ(histogram.in_bucket(0), 1u);
    EXPECT_EQ(histogram.in_bucket(LatencyHistogram::kBuckets - 1), 1u);
    EXPECT_EQ(histogram.count(), 2u);
    EXPECT_EQ(histogram.sum(), std::chrono::hours(1) + Duration(1));
}

}  // namespace
}  // namespace uc
