// Superblock of cache and backing devices (format section 1): 4096 bytes at sector 8.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "ondisk/geometry.h"
#include "ondisk/uuid.h"

namespace uc::ondisk {

inline constexpr std::uint64_t kSuperblockSector = 8;
inline constexpr std::size_t kSuperblockBytes = 4096;
inline constexpr std::uint64_t kDefaultDataOffset = 16;

enum class CacheMode : std::uint8_t { writethrough = 0, writeback = 1, writearound = 2, none = 3 };
enum class BackingState : std::uint8_t { none = 0, clean = 1, dirty = 2, stale = 3 };
enum class Replacement : std::uint8_t { lru = 0, fifo = 1, random = 2 };

// The decoded form together with the bytes that it came from: encode() overwrites only the fields
// that section 1.2 lists as rewritten (plus those set here) and keeps every other byte.
struct Superblock {
    std::array<std::byte, kSuperblockBytes> raw{};

    std::uint64_t version = 0;
    Uuid uuid;
    Uuid set_uuid;
    std::array<char, 32> label{};
    std::uint64_t flags = 0;
    std::uint64_t seq = 0;
    std::uint64_t feature_compat = 0;
    std::uint64_t feature_incompat = 0;
    std::uint64_t feature_ro_compat = 0;
    std::uint64_t nbuckets_or_offset = 0;  // word at 184
    std::uint16_t block_size = 0;
    std::uint16_t bucket_size_raw = 0;
    std::uint16_t nr_in_set = 0;
    std::uint16_t nr_this_dev = 0;
    std::uint32_t last_mount = 0;
    std::uint16_t first_bucket = 0;
    std::uint16_t keys = 0;  // journal buckets
    std::array<std::uint64_t, 256> d{};
    std::uint16_t obso_bucket_size_hi = 0;

    bool is_backing() const { return version == 1 || version == 4 || version == 6; }
    bool is_cache() const { return version == 0 || version == 3 || version == 5; }
    std::uint64_t bucket_sectors() const;  // 1.6
    std::uint64_t data_offset() const {
        return version == 1 ? kDefaultDataOffset : nbuckets_or_offset;
    }
    Geometry geometry() const;  // cache devices; only after validation
    std::string label_text() const;

    bool sync() const { return (flags & 1) != 0; }
    bool discard() const { return (flags & 2) != 0; }
    Replacement replacement() const { return static_cast<Replacement>((flags >> 2) & 7); }
    CacheMode cache_mode() const { return static_cast<CacheMode>(flags & 15); }
    BackingState state() const { return static_cast<BackingState>((flags >> 61) & 3); }
    void set_sync(bool on) { flags = (flags & ~std::uint64_t{1}) | std::uint64_t{on}; }
    void set_discard(bool on) { flags = (flags & ~std::uint64_t{2}) | (std::uint64_t{on} << 1); }
    void set_replacement(Replacement value) {
        flags = (flags & ~std::uint64_t{28}) | (static_cast<std::uint64_t>(value) << 2);
    }
    void set_cache_mode(CacheMode value) {
        flags = (flags & ~std::uint64_t{15}) | static_cast<std::uint64_t>(value);
    }
    void set_state(BackingState value) {
        flags = (flags & ~(std::uint64_t{3} << 61)) | (static_cast<std::uint64_t>(value) << 61);
    }
};

// Fields as stored; checks nothing (for display of damaged ones).
Superblock parse_superblock(std::span<const std::byte> bytes);
// Stored checksum and the one computed over the fields' range. `keys` > 256 is clamped.
struct SuperblockSums {
    std::uint64_t stored = 0;
    std::uint64_t computed = 0;
};
SuperblockSums superblock_sums(std::span<const std::byte> bytes);
bool has_superblock_magic(std::span<const std::byte> bytes);

// Parses and applies every check of section 9.1 in its order; `what` is the message there.
// `device_sectors`: size of the device. Unlike the kernel: nr_in_set != 1, page-size and the
// obsolete large-bucket layout are refused as Errc::unsupported.
Result<Superblock> decode_superblock(std::span<const std::byte> bytes, std::uint64_t device_sectors,
                                     std::uint32_t logical_block_sectors);

// The 4096 bytes to write, checksum included. Of a journal list longer than 256 the first 256
// count.
std::array<std::byte, kSuperblockBytes> encode_superblock(const Superblock& sb);

const char* name_of(CacheMode mode);  // "writethrough", ...
const char* name_of(
    BackingState state);  // sysfs words: "no cache", "clean", "dirty", "inconsistent"
const char* name_of(Replacement policy);  // "lru", ...

}  // namespace uc::ondisk
