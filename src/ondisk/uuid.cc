// Identifiers as text, and the uuid table (format section 5.9), which has neither header nor
// checksum: every content decodes.
#include "ondisk/uuid.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace uc::ondisk {

const Uuid kInvalidatedUuid{{0xa0, 0x3e, 0xf8, 0xed, 0x3e, 0xe1, 0xb8, 0x78, 0xc8, 0x50, 0xfc, 0x5e,
                             0xcb, 0x16, 0xcd, 0x99}};

namespace {

// Entries of tables that journal entries of version 0 refer to.
struct OldUuidEntryDisk {
    std::array<std::uint8_t, 16> uuid;
    std::array<char, 32> label;
    Le<std::uint32_t> first_reg;
    Le<std::uint32_t> last_reg;
    Le<std::uint32_t> invalidated;
    Le<std::uint32_t> pad;
};
static_assert(sizeof(OldUuidEntryDisk) == 64 && alignof(OldUuidEntryDisk) == 1);

constexpr bool dash_before(std::size_t byte) {
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    const std::size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

template <class Disk>
UuidEntry decode_common(const Disk& disk) {
    UuidEntry entry;
    entry.uuid.bytes = disk.uuid;
    entry.label = disk.label;
    entry.first_reg = disk.first_reg;
    entry.last_reg = disk.last_reg;
    entry.invalidated = disk.invalidated;
    return entry;
}

UuidEntry decode_entry(const OldUuidEntryDisk& disk) {
    return decode_common(disk);
}

UuidEntry decode_entry(const UuidEntryDisk& disk) {
    UuidEntry entry = decode_common(disk);
    entry.flags = disk.flags;
    entry.sectors = disk.sectors;
    entry.pad = disk.pad;
    return entry;
}

// The number of entries is that of new-style ones in both cases: the kernel widens in place.
template <class Disk>
std::vector<UuidEntry> decode_table(std::span<const std::byte> bytes, std::size_t count) {
    std::vector<UuidEntry> entries(std::min(count, bytes.size() / sizeof(Disk)));
    for (std::size_t i = 0; i < entries.size(); ++i) {
        Disk disk;
        std::memcpy(&disk, bytes.data() + i * sizeof disk, sizeof disk);
        entries[i] = decode_entry(disk);
    }
    entries.resize(count);
    return entries;
}

}  // namespace

std::string Uuid::to_string() const {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    text.reserve(36);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (dash_before(i)) text += '-';
        text += digits[bytes[i] >> 4];
        text += digits[bytes[i] & 15];
    }
    return text;
}

std::optional<Uuid> Uuid::parse(std::string_view text) {
    text = trimmed(text);
    const bool dashes = text.size() == 36;
    if (!dashes && text.size() != 32) return std::nullopt;
    Uuid uuid;
    for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
        if (dashes && dash_before(i)) {
            if (text.front() != '-') return std::nullopt;
            text.remove_prefix(1);
        }
        const int high = hex_digit(text[0]);
        const int low = hex_digit(text[1]);
        if (high < 0 || low < 0) return std::nullopt;
        uuid.bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
        text.remove_prefix(2);
    }
    return uuid;
}

std::uint64_t Uuid::magic() const {
    Le<std::uint64_t> word;
    std::memcpy(&word, bytes.data(), sizeof word);
    return word;
}

std::vector<UuidEntry> decode_uuid_table(std::span<const std::byte> bytes,
                                         std::uint32_t journal_version, const Geometry& geometry) {
    const std::size_t count = geometry.uuid_entries();
    if (journal_version == 0) return decode_table<OldUuidEntryDisk>(bytes, count);
    return decode_table<UuidEntryDisk>(bytes, count);
}

bool plausible(const UuidEntry& entry) {
    if ((entry.flags & ~UuidEntry::kFlashOnly) != 0) return false;
    if (!entry.is_free()) return true;
    return entry.first_reg == 0 && entry.last_reg == 0 && entry.invalidated == 0 &&
           entry.flags == 0 && entry.sectors == 0;
}

void encode_uuid_table(std::span<const UuidEntry> entries, std::span<std::byte> out) {
    CHECK(entries.size() * sizeof(UuidEntryDisk) <= out.size());
    std::byte* at = out.data();
    for (const UuidEntry& entry : entries) {
        UuidEntryDisk disk;
        disk.uuid = entry.uuid.bytes;
        disk.label = entry.label;
        disk.first_reg = entry.first_reg;
        disk.last_reg = entry.last_reg;
        disk.invalidated = entry.invalidated;
        disk.flags = entry.flags;
        disk.sectors = entry.sectors;
        disk.pad = entry.pad;
        std::memcpy(at, &disk, sizeof disk);
        at += sizeof disk;
    }
    std::fill(at, out.data() + out.size(), std::byte{0});
}

}  // namespace uc::ondisk
