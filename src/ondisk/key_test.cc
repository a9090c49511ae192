#include "ondisk/key.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>

#include "ondisk/vectors_test.h"

namespace uc::ondisk {
namespace {

using test::bytes_of;

std::vector<std::byte> encoded(const Key& key) {
    std::vector<std::byte> bytes(kKeyMaxBytes);
    bytes.resize(encode_key(key, bytes.data()));
    return bytes;
}

Result<Key> decoded(const std::vector<std::byte>& bytes) {
    std::span<const std::byte> rest = bytes;
    return decode_key(rest);
}

TEST(Key, EncodesTheVectorsOfTheFormat) {
    EXPECT_EQ(encoded(test::kDirtyExtent), bytes_of({0x9000001008000000, 0x90, 0xa00803}));
    EXPECT_EQ(encoded(test::kInvalidation), bytes_of({0x8000000004000001, 0x800}));
    EXPECT_EQ(encoded(Key{}), bytes_of({0x8000000000000000, 0}));
    Key max;
    max.set_pos(kPosMax);
    EXPECT_EQ(encoded(max), bytes_of({0x80000000000fffff, 0x7fffffffffffffff}));
    EXPECT_EQ(encoded(test::kRoot),
              bytes_of({0x90000000200fffff, 0x7fffffffffffffff, 0x0000000001900007}));
    EXPECT_EQ(encoded(test::kUuidKey), bytes_of({0x9000000040000000, 0, 0xc80002}));
}

TEST(Key, DecodesWhatItEncoded) {
    EXPECT_TRUE(rc::check([](std::uint64_t high, std::uint64_t low, std::uint64_t ptr, bool has) {
        high = (high & ~(std::uint64_t{7} << 60)) | (std::uint64_t{has} << 60) | Key::kMarker;
        const Key key = Key::from_words(high, low, has ? ptr : 0);
        RC_ASSERT(decoded(encoded(key)).value() == key);
    }));
}

TEST(Key, DecodingRemovesExactlyTheKeysWords) {
    std::vector<std::byte> bytes = encoded(test::kDirtyExtent);
    const std::vector<std::byte> second = encoded(test::kInvalidation);
    bytes.insert(bytes.end(), second.begin(), second.end());
    std::span<const std::byte> rest = bytes;
    EXPECT_EQ(decode_key(rest).value(), test::kDirtyExtent);
    EXPECT_EQ(rest.size(), 16u);
    EXPECT_EQ(decode_key(rest).value(), test::kInvalidation);
    EXPECT_TRUE(rest.empty());
}

TEST(Key, MarkerBitIsIgnoredWhenReadingAndSetWhenWriting) {
    const Key key = decoded(bytes_of({0x1000001008000000, 0x90, 0xa00803})).value();
    EXPECT_EQ(key, test::kDirtyExtent);
    EXPECT_EQ(encoded(Key::from_words(0x0000000004000001, 0x800, 0)), encoded(test::kInvalidation));
}

TEST(Key, RunningOverTheEndIsCorrupt) {
    for (std::size_t size : {0, 8, 15, 16, 23}) {
        std::vector<std::byte> bytes = encoded(test::kDirtyExtent);
        bytes.resize(size);
        EXPECT_EQ(decoded(bytes).error().code, Errc::corrupt) << size;
    }
}

TEST(Key, MoreThanOnePointerIsUnsupported) {
    const auto two = bytes_of({0xa000001008000000, 0x90, 0xa00803, 0xa00803});
    EXPECT_EQ(decoded(two).error().code, Errc::unsupported);
    const auto seven_cut = bytes_of({0xf000001008000000, 0x90, 0xa00803});
    EXPECT_EQ(decoded(seven_cut).error().code, Errc::corrupt);
}

// One test per bit field of section 2.1: the field, and nothing but the field.
struct Field {
    unsigned first;
    unsigned bits;
    std::uint64_t (*get)(const Key&);
};

class KeyField : public testing::TestWithParam<Field> {};

TEST_P(KeyField, ReadsItsBitsAndNoOthers) {
    const Field& field = GetParam();
    const std::uint64_t mask = ((std::uint64_t{1} << field.bits) - 1) << field.first;
    EXPECT_EQ(field.get(Key::from_words(mask, 0, 0)), mask >> field.first);
    EXPECT_EQ(field.get(Key::from_words(~mask, 0, 0)), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    High, KeyField,
    testing::Values(Field{0, 20, [](const Key& key) { return key.inode(); }},
                    Field{20, 16, [](const Key& key) -> std::uint64_t { return key.size(); }},
                    Field{36, 1, [](const Key& key) -> std::uint64_t { return key.dirty(); }},
                    Field{56, 2, [](const Key& key) -> std::uint64_t { return key.csum_kind(); }},
                    Field{60, 3, [](const Key& key) -> std::uint64_t { return key.ptrs(); }}));

TEST(Ptr, GenIsBits0To7) {
    EXPECT_EQ(Ptr(0xff).gen(), Gen(255));
    EXPECT_EQ(Ptr(~std::uint64_t{0xff}).gen(), Gen(0));
}

TEST(Ptr, SectorIsBits8To50) {
    const std::uint64_t mask = ((std::uint64_t{1} << 43) - 1) << 8;
    EXPECT_EQ(Ptr(mask).sector(), mask >> 8);
    EXPECT_EQ(Ptr(~mask).sector(), 0u);
}

TEST(Ptr, DeviceIsBits51To62) {
    const std::uint64_t mask = std::uint64_t{0xfff} << 51;
    EXPECT_EQ(Ptr(mask).dev(), 0xfffu);
    EXPECT_EQ(Ptr(~mask).dev(), 0u);
}

TEST(Ptr, OnlyDevicesBelowEightAreAvailable) {
    EXPECT_TRUE(Ptr::make(0, Gen(0), 7).available());
    EXPECT_FALSE(Ptr::make(0, Gen(0), 8).available());
    EXPECT_FALSE(Ptr::make(0, Gen(0), 0xfff).available());
}

TEST(Ptr, AdvancingNeverCarriesIntoTheDevice) {
    const Ptr check(~std::uint64_t{0});
    EXPECT_FALSE(check.advanced(1).available());
    EXPECT_EQ(check.advanced(1).sector(), 0u);
    EXPECT_EQ(check.advanced(1).gen(), Gen(255));
}

TEST(Key, SettersChangeOnlyTheirField) {
    EXPECT_TRUE(
        rc::check([](std::uint64_t high, std::uint64_t low, std::uint16_t size, bool dirty) {
            Key key = Key::from_words(high, low, 0);
            const std::uint64_t size_mask = std::uint64_t{0xffff} << 20;
            key.set_size(size);
            RC_ASSERT(key.size() == size);
            RC_ASSERT((key.high() & ~size_mask) == (high & ~size_mask));
            const std::uint64_t before = key.high();
            key.set_dirty(dirty);
            RC_ASSERT(key.dirty() == dirty);
            RC_ASSERT(((key.high() ^ before) & ~(std::uint64_t{1} << 36)) == 0u);
            key.set_pos({0xabcde, 77});
            RC_ASSERT((key.pos() == Pos{0xabcde, 77}));
            RC_ASSERT(key.size() == size);
            RC_ASSERT(key.dirty() == dirty);
        }));
}

TEST(Pos, OrdersByInodeThenOffset) {
    EXPECT_LT(kPosZero, (Pos{0, 1}));
    EXPECT_LT((Pos{0, kPosMax.offset}), (Pos{1, 0}));
    EXPECT_LT((Pos{0xFFFFF, 5}), kPosMax);
}

TEST(KeyCutting, FrontMovesThePointerAlong) {
    Key key = test::kDirtyExtent;  // [16, 144) at sector 40968
    key.cut_front(20);
    EXPECT_EQ(key, Key::extent(0, 144, 124, Ptr::make(40972, Gen(3)), true));
}

TEST(KeyCutting, BackKeepsThePointer) {
    Key key = test::kDirtyExtent;
    key.cut_back(20);
    EXPECT_EQ(key, Key::extent(0, 20, 4, Ptr::make(40968, Gen(3)), true));
}

TEST(KeyCutting, InvalidationHasNoPointerToMove) {
    Key key = test::kInvalidation;  // [1984, 2048)
    key.cut_front(2000);
    EXPECT_EQ(key, Key::invalidation(1, 2048, 48));
}

TEST(KeyCutting, EverySectorOfAPartKeepsItsPlaceOnTheCache) {
    EXPECT_TRUE(rc::check([]() {
        const auto start = *rc::gen::inRange<std::uint64_t>(0, 1 << 20);
        const auto size = *rc::gen::inRange<std::uint32_t>(1, 65536);
        const auto from = *rc::gen::inRange<std::uint64_t>(0, size);
        const auto to = *rc::gen::inRange<std::uint64_t>(from + 1, std::uint64_t{size} + 1);
        const Key whole = Key::extent(3, start + size, size, Ptr::make(5000, Gen(9)), false);
        const Key part = whole.part(start + from, start + to);
        RC_ASSERT(part.start() == start + from);
        RC_ASSERT(part.end() == start + to);
        RC_ASSERT(part.ptr().sector() == 5000 + from);
        RC_ASSERT(part.ptr().gen() == Gen(9));
        RC_ASSERT(part.inode() == 3u);
    }));
}

TEST(KeyCutting, PartWiderThanTheExtentIsTheExtent) {
    EXPECT_EQ(test::kDirtyExtent.part(0, 1000), test::kDirtyExtent);
}

}  // namespace
}  // namespace uc::ondisk
