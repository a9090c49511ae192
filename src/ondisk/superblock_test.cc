#include "ondisk/superblock.h"

#include <gtest/gtest.h>

#include <string>

#include "ondisk/magic.h"
#include "ondisk/superblock_vectors_test.h"

namespace uc::ondisk {
namespace {

using test::decode;
using test::kDeviceSectors;
using test::load;
using test::store;
using test::vector_backing;
using test::vector_cache;
using Bytes = std::array<std::byte, kSuperblockBytes>;

// Made by the format tool 1.0.8 on a file of 256 MiB.
Bytes format_tool_bytes() {
    Bytes bytes{};
    const auto put = [&](std::size_t at, std::initializer_list<unsigned> values) {
        for (const unsigned value : values) bytes[at++] = static_cast<std::byte>(value);
    };
    put(0, {0xd6, 0x37, 0x03, 0x50, 0x8f, 0xd7, 0xba, 0x6e, 8});
    put(24, {0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca});
    put(32, {0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81});
    put(40, {0xc8, 0xe4, 0xea, 0x81, 0x92, 0xf7, 0x45, 0xa6});
    put(48, {0x97, 0x1a, 0x53, 0x3d, 0xa2, 0xfe, 0x9a, 0x35});
    put(56, {0xce, 0x2e, 0xfa, 0x00, 0x6f, 0xe7, 0x48, 0x6a});
    put(64, {0x9e, 0x89, 0xcc, 0xb5, 0x48, 0x1b, 0x50, 0x5f});
    put(184, {0, 2, 0, 0, 0, 0, 0, 0, 8, 0, 0, 4, 1, 0, 0, 0, 0, 0, 0, 0, 1});
    return bytes;
}

TEST(Superblock, DecodesOneMadeByTheFormatTool) {
    const Bytes bytes = format_tool_bytes();
    EXPECT_EQ(superblock_sums(bytes).computed, 0x6ebad78f500337d6u);
    // It has 512 buckets: fine for the tool, one too few to run.
    EXPECT_STREQ(decode_superblock(bytes, 524288, 1).error().what, "cache device is too small");

    const Superblock sb = parse_superblock(bytes);
    EXPECT_EQ(sb.version, 0u);
    EXPECT_EQ(sb.uuid.to_string(), "c8e4ea81-92f7-45a6-971a-533da2fe9a35");
    EXPECT_EQ(sb.set_uuid.to_string(), "ce2efa00-6fe7-486a-9e89-ccb5481b505f");
    EXPECT_FALSE(sb.sync());
    EXPECT_EQ(sb.geometry().nbuckets, 512u);
    EXPECT_EQ(sb.geometry().bucket_sectors, 1024u);
    EXPECT_EQ(sb.geometry().block_sectors, 8u);
    EXPECT_EQ(sb.geometry().first_bucket, 1u);
    EXPECT_EQ(sb.geometry().njournal, 0u);
    EXPECT_EQ(encode_superblock(sb), bytes);
}

TEST(Superblock, SyntheticOnesHaveTheChecksumsOfTheFormat) {
    EXPECT_EQ(load<std::uint64_t>(encode_superblock(vector_cache()), 0), 0x6d8701ef8705b964u);
    EXPECT_EQ(load<std::uint64_t>(encode_superblock(vector_backing()), 0), 0x07483ebf3c8bd20cu);
    EXPECT_TRUE(decode(vector_cache()));
    EXPECT_TRUE(decode(vector_backing()));
}

TEST(Superblock, MagicNumbersOfASetAreThoseOfTheFormat) {
    const std::uint64_t set = vector_cache().set_uuid.magic();
    EXPECT_EQ(set, 0x2726252423222120u);
    EXPECT_EQ(set ^ kJsetMagic, 0x037410e580407112u);
    EXPECT_EQ(set ^ kPrioMagic, 0x4076c47ba4115eb1u);
    EXPECT_EQ(set ^ kBsetMagic, 0xb735795c9abc26d5u);
}

TEST(Superblock, RewritingKeepsEveryByteThatItDoesNotKnow) {
    Superblock sb = vector_cache();
    Bytes bytes = encode_superblock(sb);
    for (const std::size_t at : {144, 183, 208 + 8 * 32, 2255, 2258, 4095}) {
        bytes[at] = std::byte{0x5a};
    }
    // Only the padding among them is under the checksum.
    store(std::span(bytes), 0, superblock_sums(bytes).computed);
    sb = decode_superblock(bytes, kDeviceSectors, 1).value();
    EXPECT_EQ(encode_superblock(sb), bytes);
    sb.seq += 1;
    sb.last_mount += 1;
    const Bytes changed = encode_superblock(sb);
    for (std::size_t at = 8; at < bytes.size(); ++at) {
        const bool expected = at == 112 || at == 200;
        EXPECT_EQ(changed[at] != bytes[at], expected) << at;
    }
}

TEST(Superblock, ChecksumCoversTheUsedPartOfTheJournalListOnly) {
    Bytes bytes = encode_superblock(vector_cache());
    bytes[208 + 8 * 32] = std::byte{1};
    EXPECT_EQ(superblock_sums(bytes).stored, superblock_sums(bytes).computed);
    bytes[208 + 8 * 32 - 1] = std::byte{1};
    EXPECT_NE(superblock_sums(bytes).stored, superblock_sums(bytes).computed);
}

TEST(Superblock, LargeBucketsAreStoredAsALogarithm) {
    Superblock sb = vector_cache();
    sb.version = 5;
    sb.feature_incompat = 2;
    sb.bucket_size_raw = 16;
    EXPECT_EQ(sb.bucket_sectors(), 65536u);
    EXPECT_TRUE(decode_superblock(encode_superblock(sb), 4096 * 65536ull, 1));
    for (const std::uint16_t hostile : {32, 63, 64, 65535}) {
        sb.bucket_size_raw = hostile;
        EXPECT_STREQ(decode_superblock(encode_superblock(sb), ~0ull, 1).error().what,
                     "Bad bucket size (not power of 2)");
    }
    sb.feature_incompat = 1;
    sb.bucket_size_raw = 0;
    sb.obso_bucket_size_hi = 2;
    EXPECT_EQ(sb.bucket_sectors(), 131072u);
    sb.version = 3;
    EXPECT_EQ(sb.bucket_sectors(), 0u);
}

TEST(Superblock, VersionsSayWhatTheDeviceIs) {
    for (const std::uint64_t version : {0, 3, 5}) {
        Superblock sb;
        sb.version = version;
        EXPECT_TRUE(sb.is_cache() && !sb.is_backing()) << version;
    }
    for (const std::uint64_t version : {1, 4, 6}) {
        Superblock sb;
        sb.version = version;
        EXPECT_TRUE(sb.is_backing() && !sb.is_cache()) << version;
    }
}

TEST(Superblock, DataOffsetIs16WhateverVersion1Says) {
    Superblock sb = vector_backing();
    sb.nbuckets_or_offset = 9;
    EXPECT_EQ(sb.data_offset(), 16u);
    sb.version = 4;
    sb.nbuckets_or_offset = 2048;
    EXPECT_EQ(sb.data_offset(), 2048u);
}

TEST(Superblock, LabelEndsAtTheFirstZeroOrItsField) {
    Superblock sb = vector_cache();
    EXPECT_EQ(sb.label_text(), "cache");
    sb.label.fill('x');
    EXPECT_EQ(sb.label_text(), std::string(32, 'x'));
}

TEST(SuperblockFlags, CacheFlagsReadTheirBitsAndNoOthers) {
    Superblock sb;
    sb.flags = ~std::uint64_t{31};
    EXPECT_FALSE(sb.sync());
    EXPECT_FALSE(sb.discard());
    EXPECT_EQ(sb.replacement(), Replacement::lru);
    sb.set_sync(true);
    EXPECT_EQ(sb.flags, ~std::uint64_t{30});
    sb.set_discard(true);
    EXPECT_EQ(sb.flags, ~std::uint64_t{28});
    sb.set_replacement(Replacement::random);
    EXPECT_EQ(sb.flags, ~std::uint64_t{20});
    EXPECT_TRUE(sb.sync() && sb.discard());
    EXPECT_EQ(sb.replacement(), Replacement::random);
    sb.set_sync(false);
    sb.set_discard(false);
    sb.set_replacement(Replacement::fifo);
    EXPECT_EQ(sb.flags, ~std::uint64_t{27});
}

TEST(SuperblockFlags, BackingFlagsReadTheirBitsAndNoOthers) {
    const std::uint64_t mask = 15 | (std::uint64_t{3} << 61);
    Superblock sb;
    sb.flags = ~mask;
    EXPECT_EQ(sb.cache_mode(), CacheMode::writethrough);
    EXPECT_EQ(sb.state(), BackingState::none);
    sb.set_cache_mode(CacheMode::none);
    sb.set_state(BackingState::dirty);
    EXPECT_EQ(sb.flags, ~mask | 3 | (std::uint64_t{2} << 61));
    EXPECT_EQ(sb.cache_mode(), CacheMode::none);
    EXPECT_EQ(sb.state(), BackingState::dirty);
    sb.set_state(BackingState::clean);
    sb.set_cache_mode(CacheMode::writeback);
    EXPECT_EQ(sb.flags, ~mask | 1 | (std::uint64_t{1} << 61));
}

TEST(SuperblockNames, AreTheWordsOfTheAdministrationSurface) {
    EXPECT_STREQ(name_of(CacheMode::writethrough), "writethrough");
    EXPECT_STREQ(name_of(CacheMode::writeback), "writeback");
    EXPECT_STREQ(name_of(CacheMode::writearound), "writearound");
    EXPECT_STREQ(name_of(CacheMode::none), "none");
    EXPECT_STREQ(name_of(static_cast<CacheMode>(9)), "unknown");
    EXPECT_STREQ(name_of(BackingState::none), "no cache");
    EXPECT_STREQ(name_of(BackingState::clean), "clean");
    EXPECT_STREQ(name_of(BackingState::dirty), "dirty");
    EXPECT_STREQ(name_of(BackingState::stale), "inconsistent");
    EXPECT_STREQ(name_of(Replacement::lru), "lru");
    EXPECT_STREQ(name_of(Replacement::fifo), "fifo");
    EXPECT_STREQ(name_of(Replacement::random), "random");
}

}  // namespace
}  // namespace uc::ondisk
