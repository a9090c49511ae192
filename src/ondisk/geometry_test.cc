#include "ondisk/geometry.h"

#include <gtest/gtest.h>

namespace uc::ondisk {
namespace {

constexpr std::uint32_t kib(std::uint32_t n) {
    return n * 1024;
}

// The table of section 3.3.
struct Row {
    std::uint32_t bucket_kib;
    std::uint32_t metadata_kib;
    std::uint32_t node_kib;
    std::uint32_t uuid_entries;
    std::uint32_t prios;
};

TEST(Geometry, DerivedSizesMatchTheTableOfTheFormat) {
    const Row rows[] = {
        {64, 64, 64, 512, 21832},           {128, 128, 128, 1024, 43677},
        {256, 256, 256, 2048, 87368},       {512, 512, 256, 4096, 174749},
        {1024, 1024, 256, 8192, 349512},    {2048, 2048, 512, 16384, 699037},
        {4096, 4096, 1024, 32768, 1398088}, {32768, 4096, 1024, 32768, 1398088},
    };
    for (const Row& row : rows) {
        const Geometry geometry{.bucket_sectors = row.bucket_kib * 2, .nbuckets = 100000};
        EXPECT_EQ(geometry.metadata_bytes(), kib(row.metadata_kib)) << row.bucket_kib;
        EXPECT_EQ(geometry.node_sectors() * 512, kib(row.node_kib)) << row.bucket_kib;
        EXPECT_EQ(geometry.uuid_entries(), row.uuid_entries) << row.bucket_kib;
        EXPECT_EQ(geometry.prios_per_bucket(), row.prios) << row.bucket_kib;
        EXPECT_EQ(geometry.prio_buckets(), (100000 + row.prios - 1) / row.prios) << row.bucket_kib;
    }
}

TEST(Geometry, FirstBucketLiesBehindSector23) {
    EXPECT_EQ(Geometry::first_bucket_for(8), 3u);
    EXPECT_EQ(Geometry::first_bucket_for(16), 2u);
    EXPECT_EQ(Geometry::first_bucket_for(32), 1u);
    EXPECT_EQ(Geometry::first_bucket_for(1024), 1u);
}

TEST(Geometry, JournalIsOneBucketIn128WithinLimits) {
    EXPECT_EQ(Geometry::journal_buckets_for(128), 2u);
    EXPECT_EQ(Geometry::journal_buckets_for(640), 5u);
    EXPECT_EQ(Geometry::journal_buckets_for(4096), 32u);
    EXPECT_EQ(Geometry::journal_buckets_for(1000000), 256u);
}

TEST(Geometry, BlocksAreRoundedUp) {
    const Geometry geometry{.block_sectors = 8};
    EXPECT_EQ(geometry.blocks(1), 1u);
    EXPECT_EQ(geometry.blocks(4096), 1u);
    EXPECT_EQ(geometry.blocks(4097), 2u);
}

TEST(Geometry, BucketsAreCountedFromTheStartOfTheDevice) {
    const Geometry geometry{.bucket_sectors = 128};
    EXPECT_EQ(geometry.bucket_start(3), 384u);
    EXPECT_EQ(geometry.bucket_of(383), 2u);
    EXPECT_EQ(geometry.bucket_of(384), 3u);
}

}  // namespace
}  // namespace uc::ondisk
