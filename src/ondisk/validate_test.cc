#include "ondisk/validate.h"

#include <gtest/gtest.h>

#include <string>

namespace uc::ondisk {
namespace {

constexpr Geometry kGeometry{
    .block_sectors = 1, .bucket_sectors = 128, .nbuckets = 1000, .first_bucket = 2};

constexpr Key extent(std::uint64_t end, std::uint32_t size, std::uint64_t sector) {
    return Key::extent(5, end, size, Ptr::make(sector, Gen(1)), true);
}

std::string verdict(const Result<void>& result) {
    if (result) return "fine";
    EXPECT_EQ(result.error().code, Errc::corrupt);
    return result.error().what;
}

std::string extent_verdict(const Key& key) {
    return verdict(validate_extent_key(key, kGeometry));
}
std::string node_verdict(const Key& key) {
    return verdict(validate_node_key(key, kGeometry));
}

TEST(ValidateExtent, AcceptsWhatFillsItsBucketExactly) {
    EXPECT_EQ(extent_verdict(extent(128, 128, 256)), "fine");
    EXPECT_EQ(extent_verdict(extent(128, 1, 999 * 128 + 127)), "fine");
}

TEST(ValidateExtent, SizeZeroIsLegalWhateverElseItSays) {
    EXPECT_EQ(extent_verdict(extent(0, 0, 0)), "fine");
}

TEST(ValidateExtent, MayNotStartBeforeSectorZero) {
    EXPECT_EQ(extent_verdict(extent(127, 128, 256)), "extent starts before sector 0");
}

TEST(ValidateExtent, OffsetsAreBelowTwoToThe63) {
    EXPECT_EQ(extent_verdict(extent(std::uint64_t{1} << 63, 8, 256)), "extent offset out of range");
    EXPECT_EQ(extent_verdict(extent((std::uint64_t{1} << 63) - 1, 8, 256)), "fine");
}

TEST(ValidateExtent, PointerMayNotReachTheSuperblockArea) {
    EXPECT_EQ(extent_verdict(extent(8, 8, 255)), "pointer before first bucket");
}

TEST(ValidateExtent, PointerMayNotPassTheLastBucket) {
    EXPECT_EQ(extent_verdict(extent(8, 8, 128000)), "pointer past end of device");
}

TEST(ValidateExtent, MayNotCrossABucketEnd) {
    EXPECT_EQ(extent_verdict(extent(8, 8, 256 + 121)), "pointer crosses end of bucket");
    EXPECT_EQ(extent_verdict(extent(8, 8, 256 + 120)), "fine");
}

TEST(ValidateExtent, InvalidationNeedsNoPointer) {
    EXPECT_EQ(extent_verdict(Key::invalidation(1, 65535, 32768)), "fine");
}

TEST(ValidateExtent, PlaceholdersPointNowhereAndAreLegal) {
    EXPECT_EQ(extent_verdict(Key::extent(1, 8, 8, Ptr(~std::uint64_t{0}), false)), "fine");
}

TEST(ValidateNode, AcceptsANodeAndARecordOfAFreedOne) {
    EXPECT_EQ(node_verdict(Key::pointer(kPosMax, 128, Ptr::make(256, Gen(0)))), "fine");
    EXPECT_EQ(node_verdict(Key::pointer(kPosZero, 128, Ptr::make(256, Gen(0)))), "fine");
}

TEST(ValidateNode, NeedsAPointer) {
    EXPECT_EQ(node_verdict(Key::invalidation(0, 8, 8)), "node key without pointer");
}

TEST(ValidateNode, NeedsASize) {
    EXPECT_EQ(node_verdict(Key::pointer(kPosMax, 0, Ptr::make(256, Gen(0)))), "node key of size 0");
}

TEST(ValidateNode, IsNeverDirty) {
    EXPECT_EQ(node_verdict(extent(8, 8, 256)), "node key is dirty");
}

TEST(ValidateNode, OffsetsAreBelowTwoToThe63) {
    const Pos pos{0, std::uint64_t{1} << 63};
    EXPECT_EQ(node_verdict(Key::pointer(pos, 128, Ptr::make(256, Gen(0)))),
              "node key offset out of range");
}

TEST(ValidateNode, PointerObeysTheSameBoundsAsAnExtents) {
    EXPECT_EQ(node_verdict(Key::pointer(kPosMax, 128, Ptr::make(0, Gen(0)))),
              "pointer before first bucket");
    EXPECT_EQ(node_verdict(Key::pointer(kPosMax, 128, Ptr::make(1000 * 128, Gen(0)))),
              "pointer past end of device");
    EXPECT_EQ(node_verdict(Key::pointer(kPosMax, 128, Ptr::make(257, Gen(0)))),
              "pointer crosses end of bucket");
}

}  // namespace
}  // namespace uc::ondisk
