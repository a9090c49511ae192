#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "ondisk/superblock_vectors_test.h"

namespace uc::ondisk {
namespace {

using test::decode;
using test::kDeviceSectors;
using test::store;
using test::vector_backing;
using test::vector_cache;
using Bytes = std::array<std::byte, kSuperblockBytes>;

// The message after one change to a good superblock; "fine" if it is still accepted.
std::string verdict(Superblock sb, Errc code, const std::function<void(Superblock&)>& change) {
    change(sb);
    const auto result = decode(sb);
    if (result) return "fine";
    EXPECT_EQ(name_of(result.error().code), name_of(code)) << result.error().what;
    return result.error().what;
}

std::string cache_verdict(Errc code, const std::function<void(Superblock&)>& change) {
    return verdict(vector_cache(), code, change);
}

std::string backing_verdict(Errc code, const std::function<void(Superblock&)>& change) {
    return verdict(vector_backing(), code, change);
}

TEST(SuperblockChecks, PlaceMagicAndChecksumComeFirst) {
    const Bytes good = encode_superblock(vector_cache());
    const auto message = [&](std::size_t at) {
        Bytes bytes = good;
        bytes[at] ^= std::byte{1};
        const auto result = decode_superblock(bytes, kDeviceSectors, 1);
        EXPECT_EQ(result.error().code, Errc::corrupt);
        return std::string(result.error().what);
    };
    EXPECT_EQ(message(8), "Not a bcache superblock (bad offset)");
    EXPECT_EQ(message(24), "Not a bcache superblock (bad magic)");
    EXPECT_EQ(message(40), "Bad checksum");
    EXPECT_EQ(message(0), "Bad checksum");
    EXPECT_TRUE(has_superblock_magic(good));
    EXPECT_FALSE(has_superblock_magic(Bytes{}));
    EXPECT_STREQ(decode_superblock(Bytes{}, kDeviceSectors, 1).error().what,
                 "Not a bcache superblock (bad offset)");
}

TEST(SuperblockChecks, DeviceNeedsAUuid) {
    EXPECT_EQ(cache_verdict(Errc::corrupt, [](auto& sb) { sb.uuid = {}; }), "Bad UUID");
    EXPECT_EQ(backing_verdict(Errc::corrupt, [](auto& sb) { sb.uuid = {}; }), "Bad UUID");
}

TEST(SuperblockChecks, BlocksAreNotSmallerThanTheDevices) {
    Superblock sb = vector_cache();
    sb.block_size = 4;
    const auto result = decode_superblock(encode_superblock(sb), kDeviceSectors, 8);
    EXPECT_EQ(result.error().code, Errc::unsupported);
    EXPECT_STREQ(result.error().what, "Superblock block size smaller than device block size");
    EXPECT_EQ(backing_verdict(Errc::unsupported, [](auto& b) { b.block_size = 0; }),
              "Superblock block size smaller than device block size");
}

TEST(SuperblockChecks, DataOffsetIsAtLeast16) {
    const auto with = [](std::uint64_t version, std::uint64_t offset) {
        return [=](Superblock& sb) {
            sb.version = version;
            sb.nbuckets_or_offset = offset;
        };
    };
    EXPECT_EQ(backing_verdict(Errc::corrupt, with(4, 15)), "Bad data offset");
    EXPECT_EQ(backing_verdict(Errc::corrupt, with(6, 0)), "Bad data offset");
    EXPECT_EQ(backing_verdict(Errc::corrupt, with(4, 16)), "fine");
    EXPECT_EQ(backing_verdict(Errc::corrupt, with(1, 0)), "fine");
    EXPECT_EQ(backing_verdict(Errc::corrupt, with(4, kDeviceSectors)),
              "Invalid superblock: device too small");
}

TEST(SuperblockChecks, UnknownFeaturesOfVersion5AreRefused) {
    const auto v5 = [](std::uint64_t compat, std::uint64_t incompat, std::uint64_t ro_compat) {
        return [=](Superblock& sb) {
            sb.version = 5;
            sb.feature_compat = compat;
            sb.feature_incompat = incompat;
            sb.feature_ro_compat = ro_compat;
        };
    };
    EXPECT_EQ(cache_verdict(Errc::unsupported, v5(0, 0, 0)), "fine");
    EXPECT_EQ(cache_verdict(Errc::unsupported, v5(1, 4, 1)),
              "Unsupported compatible feature found");
    EXPECT_EQ(cache_verdict(Errc::unsupported, v5(0, 4, 1)),
              "Unsupported read-only compatible feature found");
    EXPECT_EQ(cache_verdict(Errc::unsupported, v5(0, 4, 0)),
              "Unsupported incompatible feature found");
    EXPECT_EQ(cache_verdict(Errc::unsupported, v5(0, 1, 0)),
              "Obsolete large bucket layout is not supported");
}

TEST(SuperblockChecks, FeatureWordsCountInVersion5Only) {
    EXPECT_EQ(cache_verdict(Errc::unsupported, [](auto& sb) { sb.feature_incompat = 4; }), "fine");
    EXPECT_EQ(backing_verdict(Errc::unsupported,
                              [](auto& sb) {
                                  sb.version = 6;
                                  sb.nbuckets_or_offset = 2048;
                                  sb.feature_compat = ~std::uint64_t{0};
                              }),
              "fine");
}

TEST(SuperblockChecks, OtherVersionsAreRefused) {
    for (const std::uint64_t version : {std::uint64_t{2}, std::uint64_t{7}, ~std::uint64_t{0}}) {
        EXPECT_EQ(cache_verdict(Errc::unsupported, [=](auto& sb) { sb.version = version; }),
                  "Unsupported superblock version");
    }
}

TEST(SuperblockChecks, JournalFitsIntoTheListAndTheDevice) {
    EXPECT_EQ(cache_verdict(Errc::corrupt, [](auto& sb) { sb.nbuckets_or_offset = 32; }),
              "Too many journal buckets");
    EXPECT_EQ(cache_verdict(Errc::corrupt, [](auto& sb) { sb.keys = 257; }),
              "Too many journal buckets");
}

TEST(SuperblockChecks, JournalListOfABackingDeviceHasTheSameLimit) {
    EXPECT_EQ(backing_verdict(Errc::corrupt, [](auto& sb) { sb.keys = 256; }), "fine");
    EXPECT_EQ(backing_verdict(Errc::corrupt, [](auto& sb) { sb.keys = 257; }),
              "Too many journal buckets");
}

TEST(SuperblockChecks, BucketNumbersHaveLimits) {
    const auto buckets = [](std::uint64_t n) {
        return [=](Superblock& sb) { sb.nbuckets_or_offset = n; };
    };
    EXPECT_EQ(cache_verdict(Errc::corrupt, buckets(std::uint64_t{1} << 63)), "Too many buckets");
    EXPECT_EQ(cache_verdict(Errc::unsupported, buckets(std::uint64_t{1} << 32)),
              "Too many buckets");
    EXPECT_EQ(cache_verdict(Errc::corrupt, buckets(127)), "Not enough buckets");
    EXPECT_EQ(cache_verdict(Errc::unsupported, buckets(128)), "cache device is too small");
    EXPECT_EQ(cache_verdict(Errc::unsupported, buckets(512)), "cache device is too small");
    EXPECT_EQ(cache_verdict(Errc::unsupported, buckets(513)), "fine");
    EXPECT_EQ(cache_verdict(Errc::corrupt, buckets(4097)), "Invalid superblock: device too small");
}

TEST(SuperblockChecks, BlocksArePowersOfTwoUpToAPage) {
    const auto block = [](std::uint16_t n) { return [=](Superblock& sb) { sb.block_size = n; }; };
    EXPECT_EQ(cache_verdict(Errc::corrupt, block(3)), "Bad block size (not power of 2)");
    EXPECT_EQ(cache_verdict(Errc::unsupported, block(16)),
              "Bad block size (larger than page size)");
    EXPECT_EQ(cache_verdict(Errc::corrupt, block(1)), "fine");
    EXPECT_EQ(backing_verdict(Errc::corrupt, block(3)), "Bad block size (not power of 2)");
}

TEST(SuperblockChecks, BucketsArePowersOfTwoFromAPage) {
    const auto bucket = [](std::uint16_t n) {
        return [=](Superblock& sb) { sb.bucket_size_raw = n; };
    };
    EXPECT_EQ(cache_verdict(Errc::corrupt, bucket(1000)), "Bad bucket size (not power of 2)");
    EXPECT_EQ(cache_verdict(Errc::corrupt, bucket(0)), "Bad bucket size (not power of 2)");
    EXPECT_EQ(cache_verdict(Errc::corrupt, bucket(4)), "Bad bucket size (smaller than page size)");
}

TEST(SuperblockChecks, CacheBelongsToASet) {
    EXPECT_EQ(cache_verdict(Errc::corrupt, [](auto& sb) { sb.set_uuid = {}; }), "Bad UUID");
    EXPECT_EQ(backing_verdict(Errc::corrupt, [](auto& sb) { sb.set_uuid = {}; }), "fine");
}

TEST(SuperblockChecks, CacheIsTheOnlyOneOfItsSet) {
    const auto member = [](std::uint16_t number, std::uint16_t count) {
        return [=](Superblock& sb) {
            sb.nr_this_dev = number;
            sb.nr_in_set = count;
        };
    };
    EXPECT_EQ(cache_verdict(Errc::corrupt, member(0, 0)), "Bad cache device number in set");
    EXPECT_EQ(cache_verdict(Errc::corrupt, member(1, 1)), "Bad cache device number in set");
    EXPECT_EQ(cache_verdict(Errc::corrupt, member(0, 9)), "Bad cache device number in set");
    EXPECT_EQ(cache_verdict(Errc::unsupported, member(0, 2)),
              "More than one cache device per set is not supported");
}

TEST(SuperblockChecks, JournalBucketsFollowTheSuperblock) {
    EXPECT_EQ(cache_verdict(Errc::corrupt, [](auto& sb) { sb.d[31] = 40; }),
              "Journal buckets not sequential");
}

TEST(SuperblockChecks, FirstBucketLiesBehindTheSuperblock) {
    EXPECT_EQ(cache_verdict(Errc::corrupt,
                            [](auto& sb) {
                                sb.first_bucket = 0;
                                sb.keys = 0;
                            }),
              "Invalid superblock: first bucket comes before end of super");
}

}  // namespace
}  // namespace uc::ondisk
