// 16-byte identifiers and the uuid table (format section 5.9).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/le.h"
#include "base/result.h"
#include "ondisk/geometry.h"

namespace uc::ondisk {

struct Uuid {
    std::array<std::uint8_t, 16> bytes{};
    constexpr auto operator<=>(const Uuid&) const = default;
    constexpr bool is_zero() const { return *this == Uuid{}; }
    std::string to_string() const;  // 36 characters, lower case
    // With or without dashes, either case, surrounding blanks ignored.
    static std::optional<Uuid> parse(std::string_view text);
    // First 8 bytes, little-endian: the `set_magic` of section 1.3.
    std::uint64_t magic() const;
};

// Pattern in the table in place of a detached device's uuid.
extern const Uuid kInvalidatedUuid;

struct UuidEntryDisk {
    std::array<std::uint8_t, 16> uuid;
    std::array<char, 32> label;
    Le<std::uint32_t> first_reg;
    Le<std::uint32_t> last_reg;
    Le<std::uint32_t> invalidated;
    Le<std::uint32_t> flags;
    Le<std::uint64_t> sectors;
    std::array<std::uint8_t, 56> pad;
};
static_assert(sizeof(UuidEntryDisk) == 128 && alignof(UuidEntryDisk) == 1);
static_assert(offsetof(UuidEntryDisk, label) == 16 && offsetof(UuidEntryDisk, first_reg) == 48);
static_assert(offsetof(UuidEntryDisk, last_reg) == 52 &&
              offsetof(UuidEntryDisk, invalidated) == 56);
static_assert(offsetof(UuidEntryDisk, flags) == 60 && offsetof(UuidEntryDisk, sectors) == 64);
static_assert(offsetof(UuidEntryDisk, pad) == 72);
static_assert(std::is_trivially_copyable_v<UuidEntryDisk>);

struct UuidEntry {
    Uuid uuid;
    std::array<char, 32> label{};
    std::uint32_t first_reg = 0;
    std::uint32_t last_reg = 0;
    std::uint32_t invalidated = 0;
    std::uint32_t flags = 0;
    std::uint64_t sectors = 0;
    std::array<std::uint8_t, 56> pad{};  // preserved

    static constexpr std::uint32_t kFlashOnly = 1;
    bool is_free() const { return uuid.is_zero(); }
    bool flash_only() const { return (flags & kFlashOnly) != 0; }
};

// Could have been written by somebody: the table has no checksum.
bool plausible(const UuidEntry& entry);

// The whole table; `journal_version` 0 means old 64-byte entries (converted).
std::vector<UuidEntry> decode_uuid_table(std::span<const std::byte> bytes,
                                         std::uint32_t journal_version, const Geometry& geometry);
// `out` is geometry.metadata_bytes() long; entries beyond the vector are zero.
void encode_uuid_table(std::span<const UuidEntry> entries, std::span<std::byte> out);

}  // namespace uc::ondisk
