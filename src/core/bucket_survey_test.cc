#include "core/bucket_survey.h"

#include <gtest/gtest.h>

namespace uc::core {
namespace {

ondisk::Geometry geometry(std::uint64_t nbuckets) {
    ondisk::Geometry out;
    out.nbuckets = nbuckets;
    out.bucket_sectors = 128;
    out.block_sectors = 8;
    out.first_bucket = 1;
    return out;
}

void put_data(alloc::BucketTable& table, BucketIndex bucket, bool dirty, std::uint16_t prio) {
    table.set_use(bucket, alloc::Use::data);
    table.at(bucket).live = 8;
    table.at(bucket).dirty = dirty ? 8 : 0;
    table.set_prio(bucket, prio);
}

TEST(BucketSurvey, SaysWhatShareOfTheBucketsHoldsWhat) {
    alloc::BucketTable table(geometry(1000));
    for (BucketIndex b = 0; b < 100; ++b) table.set_use(b, alloc::Use::journal);
    for (BucketIndex b = 100; b < 300; ++b) put_data(table, b, true, ondisk::kPrioInitial);
    for (BucketIndex b = 300; b < 700; ++b) put_data(table, b, false, ondisk::kPrioInitial);
    const BucketSurvey survey = survey_buckets(table);
    EXPECT_EQ(survey.metadata_percent, 10u);
    EXPECT_EQ(survey.dirty_percent, 20u);
    EXPECT_EQ(survey.clean_percent, 40u);
    EXPECT_EQ(survey.unused_percent, 30u);
    EXPECT_EQ(survey.average_age, 0u);
    EXPECT_EQ(survey.sectors_per_quantile, 600u * 128 / 32);
}

TEST(BucketSurvey, QuantilesRiseFromTheNewestToTheOldestBucket) {
    alloc::BucketTable table(geometry(320));
    for (BucketIndex b = 0; b < 320; ++b) {
        put_data(table, b, false, static_cast<std::uint16_t>(ondisk::kPrioInitial - b));
    }
    const BucketSurvey survey = survey_buckets(table);
    EXPECT_EQ(survey.ages.front(), 10u);
    EXPECT_EQ(survey.ages.back(), 310u);
    EXPECT_EQ(survey.average_age, 159u);
}

TEST(BucketSurvey, LooksAtASampleOfALargeDevice) {
    alloc::BucketTable table(geometry(200000));
    for (BucketIndex b = 0; b < 100000; ++b) put_data(table, b, false, ondisk::kPrioInitial);
    const BucketSurvey survey = survey_buckets(table);
    EXPECT_EQ(survey.clean_percent, 50u);
    EXPECT_EQ(survey.sectors_per_quantile, 100000u * 128 / 32);
}

}  // namespace
}  // namespace uc::core
