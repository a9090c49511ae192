#include "alloc/bucket_table.h"

#include <gtest/gtest.h>

namespace uc::alloc {
namespace {

using ondisk::Key;
using ondisk::Ptr;

ondisk::Geometry small_geometry() {
    ondisk::Geometry geometry;
    geometry.block_sectors = 8;
    geometry.bucket_sectors = 128;
    geometry.nbuckets = 100;
    geometry.first_bucket = 1;
    geometry.njournal = 2;
    return geometry;
}

class BucketTableTest : public testing::Test {
protected:
    // An extent at the start of `bucket`, with its present generation.
    Key extent(BucketIndex bucket, std::uint32_t sectors, bool dirty, Inode inode = 1) const {
        const Ptr ptr = Ptr::make(table.geometry().bucket_start(bucket), table.at(bucket).gen);
        return Key::extent(inode, 1000, sectors, ptr, dirty);
    }

    BucketTable table{small_geometry()};
    static constexpr BucketIndex kData = 10;
};

TEST_F(BucketTableTest, KnowsTheFixedAreasFromTheStart) {
    EXPECT_EQ(table.at(0).use, Use::reserved);
    EXPECT_EQ(table.at(1).use, Use::journal);
    EXPECT_EQ(table.at(2).use, Use::journal);
    EXPECT_EQ(table.at(3).use, Use::none);
    EXPECT_EQ(table.in_use_buckets(), 3u);
    EXPECT_FALSE(table.reclaimable(0));
    EXPECT_FALSE(table.reclaimable(1));
}

TEST_F(BucketTableTest, CountsLiveAndDirtySectors) {
    table.add(extent(kData, 64, true));
    table.add(extent(kData, 32, false));
    EXPECT_EQ(table.at(kData).live, 96u);
    EXPECT_EQ(table.at(kData).dirty, 64u);
    EXPECT_EQ(table.at(kData).use, Use::data);
    table.remove(extent(kData, 16, true));
    EXPECT_EQ(table.at(kData).live, 80u);
    EXPECT_EQ(table.at(kData).dirty, 48u);
}

TEST_F(BucketTableTest, CountsDirtySectorsPerInode) {
    table.add(extent(kData, 64, true, 1));
    table.add(extent(kData + 1, 8, true, 7));
    table.add(extent(kData + 1, 8, false, 7));
    EXPECT_EQ(table.dirty_sectors(1), 64u);
    EXPECT_EQ(table.dirty_sectors(7), 8u);
    EXPECT_EQ(table.dirty_sectors(8), 0u) << "never heard of";
    table.remove(extent(kData, 64, true, 1));
    EXPECT_EQ(table.dirty_sectors(1), 0u);
}

TEST_F(BucketTableTest, IgnoresRecordsAndStalePointers) {
    const Key old = extent(kData, 64, false);
    table.invalidate(kData);
    table.add(old);
    table.remove(old);
    table.add(Key::invalidation(1, 1000, 64));
    EXPECT_EQ(table.at(kData).live, 0u);
    EXPECT_EQ(table.at(kData).use, Use::none);
}

TEST_F(BucketTableTest, ClearAccountsKeepsUses) {
    table.add(extent(kData, 64, true));
    table.set_use(50, Use::node);
    table.clear_accounts();
    EXPECT_EQ(table.at(kData).live, 0u);
    EXPECT_EQ(table.dirty_sectors(1), 0u);
    EXPECT_EQ(table.at(50).use, Use::node);
    EXPECT_EQ(table.in_use_buckets(), 4u) << "superblock, two of the journal, the node";
}

TEST_F(BucketTableTest, InUseCountsDirtyAndMetadataBucketsOnly) {
    table.add(extent(kData, 64, false));
    EXPECT_EQ(table.in_use_percent(), 3u) << "clean data can go at any time";
    table.add(extent(kData, 32, true));
    EXPECT_EQ(table.in_use_percent(), 4u);
    table.remove(extent(kData, 32, true));
    EXPECT_EQ(table.in_use_percent(), 3u);
    table.set_use(20, Use::prio);
    table.set_use(21, Use::uuid);
    EXPECT_EQ(table.in_use_percent(), 5u);
    table.set_use(20, Use::none);
    EXPECT_EQ(table.in_use_percent(), 4u);
}

TEST_F(BucketTableTest, InvalidateMakesEveryPointerStale) {
    const Key key = extent(kData, 64, false);
    table.add(key);
    EXPECT_FALSE(table.stale(key.ptr()));
    table.invalidate(kData);
    EXPECT_EQ(table.staleness(key.ptr()), 1u);
    EXPECT_EQ(table.at(kData).live, 0u);
    EXPECT_EQ(table.at(kData).use, Use::none);
}

TEST_F(BucketTableTest, StalenessSurvivesTheWrapFrom255To0) {
    table.at(kData).gen = table.at(kData).last_gc = Gen(255);
    const Key key = extent(kData, 64, false);
    table.add(key);
    table.invalidate(kData);
    EXPECT_EQ(table.at(kData).gen, Gen(0));
    EXPECT_EQ(table.staleness(key.ptr()), 1u);
    EXPECT_FALSE(table.stale(extent(kData, 64, false).ptr()));
}

TEST_F(BucketTableTest, PointerAheadOfTheTableIsNotStale) {
    table.at(kData).gen = Gen(255);
    EXPECT_FALSE(table.stale(Ptr::make(table.geometry().bucket_start(kData), Gen(0))));
}

TEST_F(BucketTableTest, IsDurablyStaleOnlyAgainstTheDurableGeneration) {
    const Key key = extent(kData, 64, false);
    table.invalidate(kData);
    EXPECT_TRUE(table.stale(key.ptr()));
    EXPECT_FALSE(table.durably_stale(key.ptr())) << "a crash could make it valid again";
    table.at(kData).durable_gen = table.at(kData).gen;
    EXPECT_TRUE(table.durably_stale(key.ptr()));
}

TEST_F(BucketTableTest, ReclaimsCleanDataAndUnusedBuckets) {
    EXPECT_TRUE(table.reclaimable(kData));
    table.add(extent(kData, 64, false));
    EXPECT_TRUE(table.reclaimable(kData));
}

TEST_F(BucketTableTest, DoesNotReclaimWhatIsDirtyPinnedOpenListedOrMetadata) {
    table.add(extent(10, 64, true));
    table.at(11).pins = 1;
    table.at(12).open = true;
    table.at(13).listed = true;
    table.set_use(14, Use::node);
    for (BucketIndex b = 10; b <= 14; ++b) EXPECT_FALSE(table.reclaimable(b)) << b;
}

TEST_F(BucketTableTest, DistanceRuleHoldsReuseBackUntilCollectionAdvancesLastGc) {
    table.at(kData).gen = table.at(kData).last_gc = Gen(240);
    for (unsigned i = 0; i < kMaxGenDistance; ++i) {
        ASSERT_TRUE(table.reclaimable(kData)) << i;
        table.invalidate(kData);
    }
    EXPECT_EQ(table.at(kData).gen, Gen(static_cast<std::uint8_t>(240 + kMaxGenDistance)));
    EXPECT_FALSE(table.reclaimable(kData));
    table.at(kData).last_gc = table.at(kData).gen;
    EXPECT_TRUE(table.reclaimable(kData));
}

TEST_F(BucketTableTest, PrioFallsWithTrafficAndRisesWithUse) {
    table.touch(kData);
    EXPECT_EQ(table.prio(kData), ondisk::kPrioInitial);
    // One tick per 1/1024 of the device: 12 sectors here.
    table.account_request(13);
    EXPECT_EQ(table.prio(kData), ondisk::kPrioInitial - 1);
    table.account_request(std::uint64_t{12} * 100);
    EXPECT_EQ(table.prio(kData), ondisk::kPrioInitial - 101);
    table.touch(kData);
    EXPECT_EQ(table.prio(kData), ondisk::kPrioInitial);
}

TEST_F(BucketTableTest, PrioEndsAtZero) {
    table.touch(kData);
    table.account_request(std::uint64_t{12} * 40000);
    EXPECT_EQ(table.prio(kData), 0u);
}

TEST_F(BucketTableTest, PrioOfMetadataIsTheHighest) {
    table.set_use(20, Use::node);
    table.set_use(21, Use::prio);
    table.set_use(22, Use::uuid);
    for (BucketIndex b = 20; b <= 22; ++b) EXPECT_EQ(table.prio(b), ondisk::kPrioMetadata);
}

TEST_F(BucketTableTest, PrioFromDiskIsKeptAndAges) {
    table.set_prio(kData, 1000);
    EXPECT_EQ(table.prio(kData), 1000u);
    table.account_request(13);
    EXPECT_EQ(table.prio(kData), 999u);
    table.set_prio(kData, ondisk::kPrioMetadata);  // it held a node once
    EXPECT_EQ(table.prio(kData), ondisk::kPrioInitial);
}

}  // namespace
}  // namespace uc::alloc
