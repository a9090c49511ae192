#include "ondisk/jset.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>

#include "ondisk/checksum.h"
#include "ondisk/vectors_test.h"

namespace uc::ondisk {
namespace {

using test::kSetMagic;
using test::load;
using test::store;

// The journal entry of the format's test vectors.
Jset vector_entry() {
    Jset jset;
    jset.seq = 9;
    jset.last_seq = 7;
    jset.uuid_bucket = test::kUuidKey;
    jset.btree_root = test::kRoot;
    jset.prio_bucket[0] = 60;
    jset.keys = {test::kDirtyExtent, test::kInvalidation};
    return jset;
}

std::vector<std::byte> encoded(const Jset& jset, std::size_t size) {
    std::vector<std::byte> bytes(size, std::byte{0xee});
    encode_jset(jset, kSetMagic, bytes);
    return bytes;
}

void reseal(std::span<std::byte> bytes) {
    const std::size_t covered = 232 + 8 * load<std::uint32_t>(bytes, 28);
    store(bytes, 0, crc64(bytes.subspan(8, covered)));
}

void expect_equal(const Jset& a, const Jset& b) {
    EXPECT_EQ(a.seq, b.seq);
    EXPECT_EQ(a.last_seq, b.last_seq);
    EXPECT_EQ(a.version, b.version);
    EXPECT_EQ(a.uuid_bucket, b.uuid_bucket);
    EXPECT_EQ(a.btree_root, b.btree_root);
    EXPECT_EQ(a.btree_level, b.btree_level);
    EXPECT_EQ(a.prio_bucket, b.prio_bucket);
    EXPECT_EQ(a.keys, b.keys);
}

TEST(Jset, EncodesTheVectorOfTheFormat) {
    EXPECT_EQ(jset_bytes(vector_entry()), 280u);
    const auto bytes = encoded(vector_entry(), 512);
    EXPECT_EQ(load<std::uint64_t>(bytes, 0), 0xe76a3e6617caa295);
    EXPECT_EQ(load<std::uint64_t>(bytes, 8), 0x037410e580407112u);
    EXPECT_EQ(load<std::uint32_t>(bytes, 28), 5u);
    EXPECT_EQ(load<std::uint64_t>(bytes, 176), 60u);
    for (std::size_t i = 280; i < 512; ++i) EXPECT_EQ(bytes[i], std::byte{0}) << i;
}

TEST(Jset, DecodesTheVectorOfTheFormat) {
    expect_equal(decode_jset(encoded(vector_entry(), 280), kSetMagic).value(), vector_entry());
}

TEST(Jset, WordsBehindTheHeaderKeysAreArbitrary) {
    auto bytes = encoded(vector_entry(), 512);
    store(bytes, 40 + 24, ~std::uint64_t{0});
    store(bytes, 104 + 56, ~std::uint64_t{0});
    reseal(bytes);
    expect_equal(decode_jset(bytes, kSetMagic).value(), vector_entry());
}

TEST(Jset, VersionIsKeptBecauseItTellsTheFormOfTheUuidTable) {
    Jset jset = vector_entry();
    jset.version = 0;
    EXPECT_EQ(decode_jset(encoded(jset, 512), kSetMagic).value().version, 0u);
}

TEST(Jset, EntryOfAnotherSetIsNoEntry) {
    const auto bytes = encoded(vector_entry(), 512);
    EXPECT_EQ(decode_jset(bytes, kSetMagic + 1).error().code, Errc::not_found);
}

TEST(Jset, TooFewBytesForAHeaderAreNoEntry) {
    const auto bytes = encoded(vector_entry(), 512);
    EXPECT_EQ(decode_jset(std::span(bytes).first(239), kSetMagic).error().code, Errc::not_found);
    EXPECT_EQ(decode_jset({}, kSetMagic).error().code, Errc::not_found);
}

TEST(Jset, MoreThan32768BytesAreCorrupt) {
    std::vector<std::byte> bytes(1 << 17);
    Jset jset = vector_entry();
    jset.keys.assign((kJsetMaxBytes - 240) / 16, test::kInvalidation);
    encode_jset(jset, kSetMagic, bytes);
    EXPECT_EQ(decode_jset(bytes, kSetMagic).value().keys.size(), 2033u);

    for (const std::uint32_t words : {4067u, 0xffffffffu}) {
        store(bytes, 28, words);
        EXPECT_STREQ(decode_jset(bytes, kSetMagic).error().what, "journal entry too large");
        EXPECT_EQ(decode_jset(bytes, kSetMagic).error().code, Errc::corrupt);
    }
}

TEST(Jset, MoreThanTheRestOfTheBucketIsCorrupt) {
    const auto bytes = encoded(vector_entry(), 512);
    const auto result = decode_jset(std::span(bytes).first(279), kSetMagic);
    EXPECT_EQ(result.error().code, Errc::corrupt);
    EXPECT_STREQ(result.error().what, "journal entry crosses end of bucket");
}

TEST(Jset, AnyChangedByteUnderTheChecksumIsCorrupt) {
    for (std::size_t at = 0; at < 280; ++at) {
        if (at >= 8 && at < 16) continue;   // the magic: no entry at all
        if (at >= 28 && at < 32) continue;  // the size
        auto bytes = encoded(vector_entry(), 512);
        bytes[at] ^= std::byte{0x10};
        const auto result = decode_jset(bytes, kSetMagic);
        ASSERT_FALSE(result) << at;
        EXPECT_EQ(result.error().code, Errc::corrupt) << at;
    }
}

TEST(Jset, KeyThatRunsOverTheEntryIsCorrupt) {
    auto bytes = encoded(vector_entry(), 512);
    store(bytes, 28, std::uint32_t{4});
    reseal(bytes);
    EXPECT_STREQ(decode_jset(bytes, kSetMagic).error().what, "key runs over the end");
}

TEST(Jset, KeyWithTwoPointersIsUnsupported) {
    for (const std::size_t at : {40, 104, 240}) {
        auto bytes = encoded(vector_entry(), 512);
        store(bytes, at, 0xa000001008000000);
        reseal(bytes);
        EXPECT_EQ(decode_jset(bytes, kSetMagic).error().code, Errc::unsupported) << at;
    }
}

TEST(Jset, BlocksCountTheHeader) {
    const Geometry small{.block_sectors = 1};
    EXPECT_EQ(jset_blocks(0, small), 1u);
    EXPECT_EQ(jset_blocks(34, small), 1u);
    EXPECT_EQ(jset_blocks(35, small), 2u);
    EXPECT_EQ(jset_blocks(4066, Geometry{.block_sectors = 8}), 8u);
}

TEST(Jset, DecodesWhatItEncoded) {
    EXPECT_TRUE(rc::check([](std::uint64_t seq, std::uint64_t last_seq, std::uint16_t level,
                             const std::vector<std::uint32_t>& ends) {
        Jset jset = vector_entry();
        jset.seq = seq;
        jset.last_seq = last_seq;
        jset.btree_level = level;
        jset.prio_bucket[7] = seq ^ last_seq;
        jset.keys.clear();
        for (const std::uint32_t end : ends) {
            jset.keys.push_back(end % 2 == 0 ? Key::invalidation(end % 1000, end, end % 65536)
                                             : Key::extent(4, end, end % 65536, Ptr(end), true));
        }
        const auto bytes = encoded(jset, jset_bytes(jset) + 100);
        expect_equal(decode_jset(bytes, kSetMagic).value(), jset);
    }));
}

}  // namespace
}  // namespace uc::ondisk
