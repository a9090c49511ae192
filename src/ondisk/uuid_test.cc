#include "ondisk/uuid.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>

#include "ondisk/vectors_test.h"

namespace uc::ondisk {
namespace {

using test::counting_uuid;
using test::load;
using test::store;

constexpr Geometry kGeometry{.bucket_sectors = 8};  // 32 entries

TEST(Uuid, PrintsInTheUsualForm) {
    EXPECT_EQ(test::kSetUuid.to_string(), "20212223-2425-2627-2829-2a2b2c2d2e2f");
}

TEST(Uuid, ParsesWithAndWithoutDashesInEitherCase) {
    EXPECT_EQ(Uuid::parse("20212223-2425-2627-2829-2a2b2c2d2e2f"), test::kSetUuid);
    EXPECT_EQ(Uuid::parse("202122232425262728292A2B2C2D2E2F"), test::kSetUuid);
    EXPECT_EQ(Uuid::parse(" \t202122232425262728292a2b2c2d2e2f\n"), test::kSetUuid);
}

TEST(Uuid, RefusesOtherText) {
    for (const char* text :
         {"", "  ", "20212223", "2021222324252627-2829-2a2b-2c2d-2e2f",
          "202122232425262728292a2b2c2d2e2g", "2021222-32425-2627-2829-2a2b2c2d2e2f",
          "20212223-2425-2627-2829-2a2b2c2d2e2f0", "-0212223242526272829-a2b2c2d2e2f"}) {
        EXPECT_EQ(Uuid::parse(text), std::nullopt) << text;
    }
}

TEST(Uuid, ParsesWhatItPrinted) {
    EXPECT_TRUE(rc::check([](const std::array<std::uint8_t, 16>& bytes) {
        RC_ASSERT(Uuid::parse(Uuid{bytes}.to_string()) == Uuid{bytes});
    }));
}

TEST(Uuid, MagicIsTheFirstEightBytesLittleEndian) {
    EXPECT_EQ(test::kSetUuid.magic(), 0x2726252423222120u);
}

UuidEntry sample_entry() {
    UuidEntry entry;
    entry.uuid = counting_uuid(0x10);
    entry.label = {'d', 'i', 's', 'k'};
    entry.first_reg = 1;
    entry.last_reg = 2;
    entry.invalidated = 3;
    entry.flags = UuidEntry::kFlashOnly;
    entry.sectors = 12345678;
    entry.pad[55] = 9;
    return entry;
}

TEST(UuidTable, EntriesAreLaidOutAsTheFormatSays) {
    std::vector<std::byte> bytes(kGeometry.metadata_bytes(), std::byte{0xee});
    const std::vector<UuidEntry> entries{UuidEntry{}, sample_entry()};
    encode_uuid_table(entries, bytes);
    EXPECT_EQ(load<std::uint8_t>(bytes, 128), 0x10);
    EXPECT_EQ(load<std::uint8_t>(bytes, 128 + 16), 'd');
    EXPECT_EQ(load<std::uint32_t>(bytes, 128 + 48), 1u);
    EXPECT_EQ(load<std::uint32_t>(bytes, 128 + 52), 2u);
    EXPECT_EQ(load<std::uint32_t>(bytes, 128 + 56), 3u);
    EXPECT_EQ(load<std::uint32_t>(bytes, 128 + 60), 1u);
    EXPECT_EQ(load<std::uint64_t>(bytes, 128 + 64), 12345678u);
    EXPECT_EQ(load<std::uint8_t>(bytes, 128 + 127), 9);
    for (std::size_t i = 256; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], std::byte{0}) << i;
}

TEST(UuidTable, EveryContentSurvivesDecodingAndEncoding) {
    EXPECT_TRUE(rc::check([](std::uint64_t seed) {
        std::vector<std::byte> bytes(kGeometry.metadata_bytes());
        for (std::byte& byte : bytes) {
            seed = seed * 6364136223846793005 + 1442695040888963407;
            byte = static_cast<std::byte>(seed >> 56);
        }
        const auto entries = decode_uuid_table(bytes, 1, kGeometry);
        RC_ASSERT(entries.size() == 32u);
        std::vector<std::byte> again(bytes.size());
        encode_uuid_table(entries, again);
        RC_ASSERT(again == bytes);
    }));
}

TEST(UuidTable, FreeAndFlashOnlyEntriesAreToldApart) {
    EXPECT_TRUE(UuidEntry{}.is_free());
    EXPECT_FALSE(sample_entry().is_free());
    EXPECT_TRUE(sample_entry().flash_only());
    UuidEntry backing = sample_entry();
    backing.flags = ~UuidEntry::kFlashOnly;
    EXPECT_FALSE(backing.flash_only());
}

TEST(UuidTable, TablesOfVersionZeroHaveEntriesOf64Bytes) {
    std::vector<std::byte> bytes(kGeometry.metadata_bytes());
    store(std::span(bytes), 64, std::uint8_t{0x42});
    store(std::span(bytes), 64 + 56, std::uint32_t{3});
    store(std::span(bytes), 64 + 60, ~std::uint32_t{0});  // padding there, flags today
    const auto entries = decode_uuid_table(bytes, 0, kGeometry);
    ASSERT_EQ(entries.size(), 32u);
    EXPECT_EQ(entries[1].uuid.bytes[0], 0x42);
    EXPECT_EQ(entries[1].invalidated, 3u);
    EXPECT_EQ(entries[1].flags, 0u);
    EXPECT_TRUE(entries[2].is_free());
}

TEST(UuidTable, ShortBytesGiveFreeEntries) {
    const std::vector<std::byte> bytes(200, std::byte{1});
    const auto entries = decode_uuid_table(bytes, 1, kGeometry);
    ASSERT_EQ(entries.size(), 32u);
    EXPECT_FALSE(entries[0].is_free());
    EXPECT_TRUE(entries[1].is_free());
}

}  // namespace
}  // namespace uc::ondisk
