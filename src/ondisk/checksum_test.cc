#include "ondisk/checksum.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <numeric>
#include <string_view>
#include <vector>

namespace uc::ondisk {
namespace {

struct Vector {
    std::string_view input;
    std::uint64_t standard;
    std::uint64_t raw;
};

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

// No final xor: what the format calls raw.
std::uint64_t raw_crc64(std::span<const std::byte> bytes) {
    return ~crc64(bytes, 0);
}

// Bit by bit, straight from the definition.
std::uint64_t slow_crc64(std::span<const std::byte> bytes, std::uint64_t reg) {
    for (const std::byte byte : bytes) {
        reg ^= std::uint64_t{std::to_integer<std::uint8_t>(byte)} << 56;
        for (int bit = 0; bit < 8; ++bit) {
            reg = (reg << 1) ^ ((reg >> 63) != 0 ? 0x42F0E1EBA9EA3693 : 0);
        }
    }
    return ~reg;
}

TEST(Checksum, MatchesTheVectorsOfTheFormat) {
    std::string counting(256, '\0');
    std::iota(counting.begin(), counting.end(), '\0');
    const std::string eight_zeroes(8, '\0');
    const std::string page(4096, '\0');
    const Vector vectors[] = {
        {"", 0, 0},
        {"a", 0xce73f427acc0a99a, 0x548f120162451c62},
        {"123456789", 0x62ec59e3f1a4f00a, 0x6c40df5f0b497347},
        {eight_zeroes, 0x03534142a6ce566d, 0},
        {"\xff\xff\xff\xff\xff\xff\xff\xff", 0xffffffffffffffff, 0xfcacbebd5931a992},
        {counting, 0x59c3325b2927a19a, 0x62b0da1c1b130a91},
        {page, 0xa50f57a429cbcb64, 0},
    };
    for (const Vector& vector : vectors) {
        EXPECT_EQ(crc64(bytes_of(vector.input)), vector.standard) << vector.input.size();
        EXPECT_EQ(raw_crc64(bytes_of(vector.input)), vector.raw) << vector.input.size();
    }
}

TEST(Checksum, AgreesWithTheBitwiseDefinitionForEverySeed) {
    EXPECT_TRUE(rc::check([](const std::vector<std::uint8_t>& bytes, std::uint64_t seed) {
        const auto span = std::as_bytes(std::span(bytes));
        RC_ASSERT(crc64(span, seed) == slow_crc64(span, seed));
    }));
}

}  // namespace
}  // namespace uc::ondisk
