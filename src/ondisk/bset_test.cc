#include "ondisk/bset.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <string>

#include "ondisk/checksum.h"
#include "ondisk/magic.h"
#include "ondisk/vectors_test.h"

namespace uc::ondisk {
namespace {

using test::kSetMagic;
using test::load;
using test::store;

constexpr std::uint64_t kSeq = 0x1122334455667788;
constexpr std::uint64_t kSeed = test::kRootPtr.raw();
constexpr Geometry kGeometry{.block_sectors = 1, .bucket_sectors = 64, .nbuckets = 1000};
const std::vector<Key> kTwoKeys{test::kDirtyExtent, test::kInvalidation};

// Enough keys for a set of several blocks.
std::vector<Key> many_keys(std::size_t count) {
    std::vector<Key> keys;
    for (std::size_t i = 0; i < count; ++i) {
        keys.push_back(Key::extent(0, 8 * (i + 1), 8, Ptr::make(1024 + 8 * i, Gen(1)), false));
    }
    return keys;
}

// A node of `kGeometry` that sets are appended to, and then damaged.
struct Node {
    std::vector<std::byte> bytes = std::vector<std::byte>(64 * 512);
    std::uint32_t next_block = 0;

    std::span<std::byte> block(std::uint32_t index) {
        return std::span(bytes).subspan(std::size_t{index} * 512);
    }
    Node& append(const std::vector<Key>& keys) {
        const std::uint32_t blocks = kGeometry.blocks(bset_bytes(keys));
        encode_bset(keys, kSeq, kSetMagic, kSeed, block(next_block).first(blocks * 512));
        next_block += blocks;
        return *this;
    }
    // Rewrites a header field of the set at `at`, with a right checksum afterwards.
    template <std::unsigned_integral T>
    Node& forge(std::uint32_t at, std::size_t offset, T value) {
        store(block(at), offset, value);
        return reseal(at, kSeed);
    }
    Node& reseal(std::uint32_t at, std::uint64_t seed) {
        const std::size_t covered = 24 + 8 * load<std::uint32_t>(block(at), 28);
        store(block(at), 0, crc64(block(at).subspan(8, covered), seed));
        return *this;
    }
    Result<NodeImage> decode(bool tolerate_torn = false, std::uint32_t* error_block = nullptr) {
        return decode_node(bytes, kSetMagic, kSeed, kGeometry, tolerate_torn, error_block);
    }
    // "reason @block", or "fine".
    std::string verdict(bool tolerate_torn = false) {
        std::uint32_t error_block = 999;
        const Result<NodeImage> image = decode(tolerate_torn, &error_block);
        if (image) return "fine";
        EXPECT_EQ(image.error().code, Errc::corrupt);
        return std::string(image.error().what) + " @" + std::to_string(error_block);
    }
};

TEST(Bset, EncodesTheVectorOfTheFormat) {
    std::vector<std::byte> out(512, std::byte{0xee});
    encode_bset(kTwoKeys, kSeq, kSetMagic, kSeed, out);
    EXPECT_EQ(load<std::uint64_t>(out, 0), 0x0649d2d9567b2c6e);
    EXPECT_EQ(load<std::uint64_t>(out, 8), 0xb735795c9abc26d5);
    EXPECT_EQ(load<std::uint64_t>(out, 16), kSeq);
    EXPECT_EQ(load<std::uint32_t>(out, 24), 1u);
    EXPECT_EQ(load<std::uint32_t>(out, 28), 5u);
    EXPECT_EQ(bset_bytes(kTwoKeys), 72u);
    for (std::size_t i = 72; i < out.size(); ++i) EXPECT_EQ(out[i], std::byte{0}) << i;
}

TEST(Bset, SetsOfVersionZeroHaveTheUnseededChecksum) {
    Node node;
    node.append(kTwoKeys);
    store(node.block(0), 24, std::uint32_t{0});
    // The vector's unseeded sum is that of the version 1 bytes; check it, then version 0 itself.
    Node vector;
    vector.append(kTwoKeys).reseal(0, ~std::uint64_t{0});
    EXPECT_EQ(load<std::uint64_t>(vector.bytes, 0), 0xf0d10d6e716d5296);
    EXPECT_EQ(vector.verdict(), "bad checksum @0");

    node.reseal(0, ~std::uint64_t{0});
    const NodeImage image = node.decode().value();
    EXPECT_EQ(image.sets.at(0).version, 0u);
    EXPECT_EQ(image.sets.at(0).keys, kTwoKeys);
}

TEST(NodeDecoding, FindsAllSetsAndThePlaceForTheNext) {
    Node node;
    node.append(kTwoKeys).append(many_keys(50)).append({test::kInvalidation});
    const NodeImage image = node.decode().value();
    ASSERT_EQ(image.sets.size(), 3u);
    EXPECT_EQ(image.seq, kSeq);
    EXPECT_EQ(image.sets[1].block, 1u);
    EXPECT_EQ(image.sets[1].blocks, 3u);
    EXPECT_EQ(image.sets[1].keys, many_keys(50));
    EXPECT_EQ(image.sets[2].block, 4u);
    EXPECT_EQ(image.next_block, 5u);
    EXPECT_FALSE(image.torn);
}

TEST(NodeDecoding, FirstSetMayBeEmptyButNoOther) {
    EXPECT_EQ(Node().append({}).verdict(), "fine");
    EXPECT_EQ(Node().append({}).append(kTwoKeys).verdict(), "fine");
    EXPECT_EQ(Node().append(kTwoKeys).append({}).verdict(), "empty set @1");
}

TEST(NodeDecoding, FullNodeHasNoPlaceForAnother) {
    Node node;
    for (int i = 0; i < 64; ++i) node.append(kTwoKeys);
    const NodeImage image = node.decode().value();
    EXPECT_EQ(image.sets.size(), 64u);
    EXPECT_EQ(image.next_block, 64u);
}

TEST(NodeDecoding, LeftoversOfAnotherNodeEndTheList) {
    Node node;
    node.append(kTwoKeys).append(kTwoKeys);
    store(node.block(1), 16, kSeq + 1);
    EXPECT_EQ(node.decode().value().sets.size(), 1u);
}

TEST(NodeDecoding, SeqOfZeroIsABadHeader) {
    EXPECT_EQ(Node().verdict(), "bad btree header @0");
}

TEST(NodeDecoding, NodeSmallerThanABlockIsABadHeader) {
    Node node;
    node.append(kTwoKeys);
    node.bytes.resize(511);
    EXPECT_EQ(node.verdict(), "bad btree header @0");
}

TEST(NodeDecoding, VersionTwoIsUnsupported) {
    Node node;
    node.append(kTwoKeys).append(kTwoKeys).forge(1, 24, std::uint32_t{2});
    EXPECT_EQ(node.verdict(), "unsupported bset version @1");
}

TEST(NodeDecoding, SetLongerThanTheNodeIsABadHeader) {
    for (const std::uint32_t words : {4093u, 0xffffffffu}) {
        Node node;
        node.append(kTwoKeys);
        store(node.block(0), 28, words);
        EXPECT_EQ(node.verdict(true), "bad btree header @0") << words;
    }
}

TEST(NodeDecoding, WrongMagicIsRefusedEvenWithARightChecksum) {
    Node node;
    node.append(kTwoKeys).forge(0, 8, std::uint64_t{1});
    EXPECT_EQ(node.verdict(), "bad magic @0");
}

TEST(NodeDecoding, ChecksumDependsOnThePointerWord) {
    Node node;
    node.append(kTwoKeys);
    const auto moved = decode_node(node.bytes, kSetMagic, kSeed + 1, kGeometry, true, nullptr);
    EXPECT_STREQ(moved.error().what, "bad checksum");
}

TEST(NodeDecoding, MatchingBlockBeyondTheLastSetIsCorruption) {
    Node node;
    node.append(kTwoKeys);
    store(node.block(5), 16, kSeq);
    EXPECT_EQ(node.verdict(), "corrupted btree @5");
    EXPECT_EQ(node.verdict(true), "corrupted btree @5");
}

TEST(NodeDecoding, KeyThatRunsOverTheSetIsCorrupt) {
    Node node;
    node.append(kTwoKeys).forge(0, 28, std::uint32_t{4});
    EXPECT_EQ(node.verdict(), "key runs over the end @0");
}

TEST(NodeDecoding, KeyWithTwoPointersIsUnsupported) {
    Node node;
    node.append(kTwoKeys).forge(0, 32, 0xa000001008000000);
    EXPECT_EQ(node.decode().error().code, Errc::unsupported);
}

TEST(TornAppend, IsReportedWithItsKeysWhenTolerated) {
    Node node;
    node.append(kTwoKeys).append(many_keys(50));
    store(node.block(3), 40, std::uint64_t{~0ull});
    EXPECT_EQ(node.verdict(false), "bad checksum @1");

    const NodeImage image = node.decode(true).value();
    EXPECT_TRUE(image.torn);
    EXPECT_EQ(image.sets.size(), 1u);
    EXPECT_EQ(image.next_block, 1u);
    // Everything before the damage decodes; the damage is a key with seven pointers.
    ASSERT_GE(image.torn_keys.size(), 40u);
    EXPECT_EQ(image.torn_keys[0], many_keys(1)[0]);
    EXPECT_LT(image.torn_keys.size(), 50u);
}

TEST(TornAppend, IsNeverTheFirstSet) {
    Node node;
    node.append(kTwoKeys);
    store(node.block(0), 40, std::uint64_t{7});
    EXPECT_EQ(node.verdict(true), "bad checksum @0");
}

TEST(TornAppend, IsNeverFollowedByAnotherSet) {
    Node node;
    node.append(kTwoKeys).append(kTwoKeys).append(kTwoKeys);
    store(node.block(1), 40, std::uint64_t{7});
    EXPECT_EQ(node.verdict(true), "bad checksum @1");
}

TEST(NodeDecoding, ReturnsTheKeysOfAnySetsThatWereEncoded) {
    EXPECT_TRUE(rc::check([](const std::vector<std::vector<std::uint16_t>>& shape) {
        Node node;
        std::vector<std::vector<Key>> expected;
        for (const auto& sizes : shape) {
            std::vector<Key> keys;
            std::uint64_t end = 70000;
            for (const std::uint16_t size : sizes) {
                end += size;
                keys.push_back(size % 3 == 0 ? Key::invalidation(1, end, size)
                                             : Key::extent(1, end, size, Ptr(end), size % 2 == 0));
            }
            if (keys.empty() && !expected.empty()) continue;
            if (node.next_block + kGeometry.blocks(bset_bytes(keys)) > 64) break;
            node.append(keys);
            expected.push_back(keys);
        }
        RC_PRE(!expected.empty());
        const NodeImage image = node.decode().value();
        RC_ASSERT(image.next_block == node.next_block);
        RC_ASSERT(image.sets.size() == expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
            RC_ASSERT(image.sets[i].keys == expected[i]);
        }
    }));
}

}  // namespace
}  // namespace uc::ondisk
