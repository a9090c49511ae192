#include "ondisk/prio_set.h"

#include <gtest/gtest.h>

#include "ondisk/vectors_test.h"

namespace uc::ondisk {
namespace {

using test::kSetMagic;
using test::load;
using test::store;

constexpr Geometry kGeometry{.bucket_sectors = 8, .nbuckets = 2000, .first_bucket = 3};

std::vector<std::byte> sealed() {
    std::vector<std::byte> bytes(kGeometry.metadata_bytes());
    std::uint16_t i = 0;
    for (PrioEntry& entry : prio_entries(bytes, kGeometry)) {
        entry.prio = static_cast<std::uint16_t>(60000 + i);
        entry.gen = static_cast<std::uint8_t>(i++);
    }
    seal_prio_set(bytes, 77, 1234, kSetMagic);
    return bytes;
}

TEST(PrioSet, DecodesWhatWasSealed) {
    const auto bytes = sealed();
    const PrioSetView view = decode_prio_set(bytes, kSetMagic, kGeometry).value();
    EXPECT_EQ(view.seq, 77u);
    EXPECT_EQ(view.next_bucket, 1234u);
    ASSERT_EQ(view.entries.size(), 1352u);
    for (std::size_t i = 0; i < view.entries.size(); ++i) {
        EXPECT_EQ(view.entries[i].prio, 60000 + i);
        EXPECT_EQ(view.entries[i].gen, i % 256);
    }
}

TEST(PrioSet, HasThreeByteEntriesBehindAHeaderOf40) {
    const auto bytes = sealed();
    EXPECT_EQ(load<std::uint64_t>(bytes, 8), 0x4076c47ba4115eb1u);
    EXPECT_EQ(load<std::uint64_t>(bytes, 16), 77u);
    EXPECT_EQ(load<std::uint32_t>(bytes, 24), 0u);
    EXPECT_EQ(load<std::uint32_t>(bytes, 28), 0u);
    EXPECT_EQ(load<std::uint64_t>(bytes, 32), 1234u);
    EXPECT_EQ(load<std::uint16_t>(bytes, 40 + 3 * 5), 60005u);
    EXPECT_EQ(load<std::uint8_t>(bytes, 40 + 3 * 5 + 2), 5u);
}

TEST(PrioSet, ChecksumCoversUnusedEntriesToo) {
    auto bytes = sealed();
    bytes.back() ^= std::byte{1};
    const auto result = decode_prio_set(bytes, kSetMagic, kGeometry);
    EXPECT_EQ(result.error().code, Errc::corrupt);
    EXPECT_STREQ(result.error().what, "bad csum reading priorities");
}

TEST(PrioSet, TableOfAnotherSetIsRefused) {
    const auto bytes = sealed();
    const auto result = decode_prio_set(bytes, kSetMagic + 1, kGeometry);
    EXPECT_EQ(result.error().code, Errc::corrupt);
    EXPECT_STREQ(result.error().what, "bad magic reading priorities");
}

TEST(PrioSet, BytesBehindTheMetadataAreNotPartOfIt) {
    auto bytes = sealed();
    bytes.resize(bytes.size() + 512, std::byte{0xee});
    EXPECT_TRUE(decode_prio_set(bytes, kSetMagic, kGeometry));
}

}  // namespace
}  // namespace uc::ondisk
