// The superblock (format section 1) and the checks that stand before anybody uses one (9.1).
//
// The 4096 bytes that were read stay with the decoded form, and encoding writes the fields over
// them: bytes that nobody here understands survive a rewrite, as they do in the kernel.
#include "ondisk/superblock.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/le.h"
#include "ondisk/checksum.h"

namespace uc::ondisk {

namespace {

constexpr std::array<std::uint8_t, 16> kMagic{0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca,
                                              0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81};
constexpr std::uint16_t kMaxJournalBuckets = 256;
constexpr std::uint64_t kObsoleteLargeBucket = 1;
constexpr std::uint64_t kLargeBucket = 2;
constexpr std::uint32_t kPageSectors = 8;
// The kernel's reserves need this many (3.7).
constexpr std::uint64_t kMinRunnableBuckets = 513;

// Format section 1.2.
struct SuperblockDisk {
    Le<std::uint64_t> csum;
    Le<std::uint64_t> offset;
    Le<std::uint64_t> version;
    std::array<std::uint8_t, 16> magic;
    std::array<std::uint8_t, 16> uuid;
    std::array<std::uint8_t, 16> set_uuid;
    std::array<char, 32> label;
    Le<std::uint64_t> flags;
    Le<std::uint64_t> seq;
    Le<std::uint64_t> feature_compat;
    Le<std::uint64_t> feature_incompat;
    Le<std::uint64_t> feature_ro_compat;
    std::array<std::uint8_t, 40> pad;
    Le<std::uint64_t> nbuckets_or_offset;
    Le<std::uint16_t> block_size;
    Le<std::uint16_t> bucket_size;
    Le<std::uint16_t> nr_in_set;
    Le<std::uint16_t> nr_this_dev;
    Le<std::uint32_t> last_mount;
    Le<std::uint16_t> first_bucket;
    Le<std::uint16_t> keys;
    std::array<Le<std::uint64_t>, 256> d;
    Le<std::uint16_t> obso_bucket_size_hi;
    std::array<std::uint8_t, 1838> rest;
};
static_assert(sizeof(SuperblockDisk) == kSuperblockBytes && alignof(SuperblockDisk) == 1);
static_assert(offsetof(SuperblockDisk, magic) == 24 && offsetof(SuperblockDisk, uuid) == 40);
static_assert(offsetof(SuperblockDisk, set_uuid) == 56 && offsetof(SuperblockDisk, label) == 72);
static_assert(offsetof(SuperblockDisk, flags) == 104 && offsetof(SuperblockDisk, seq) == 112);
static_assert(offsetof(SuperblockDisk, feature_compat) == 120);
static_assert(offsetof(SuperblockDisk, feature_ro_compat) == 136);
static_assert(offsetof(SuperblockDisk, nbuckets_or_offset) == 184);
static_assert(offsetof(SuperblockDisk, block_size) == 192);
static_assert(offsetof(SuperblockDisk, nr_in_set) == 196);
static_assert(offsetof(SuperblockDisk, last_mount) == 200);
static_assert(offsetof(SuperblockDisk, first_bucket) == 204);
static_assert(offsetof(SuperblockDisk, keys) == 206 && offsetof(SuperblockDisk, d) == 208);
static_assert(offsetof(SuperblockDisk, obso_bucket_size_hi) == 2256);

SuperblockDisk disk_form(std::span<const std::byte> bytes) {
    CHECK(bytes.size() >= kSuperblockBytes);
    SuperblockDisk disk;
    std::memcpy(&disk, bytes.data(), sizeof disk);
    return disk;
}

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint16_t keys) {
    const std::size_t used = std::min(keys, kMaxJournalBuckets);
    return crc64(bytes.subspan(8, offsetof(SuperblockDisk, d) + 8 * used - 8));
}

Result<void> check_features(const Superblock& sb) {
    if (sb.version != 5) return {};
    if (sb.feature_compat != 0) {
        return fail(Errc::unsupported, "Unsupported compatible feature found");
    }
    if (sb.feature_ro_compat != 0) {
        return fail(Errc::unsupported, "Unsupported read-only compatible feature found");
    }
    if ((sb.feature_incompat & ~(kObsoleteLargeBucket | kLargeBucket)) != 0) {
        return fail(Errc::unsupported, "Unsupported incompatible feature found");
    }
    return {};
}

Result<void> check_common(const Superblock& sb, const SuperblockDisk& disk,
                          std::uint32_t logical_block_sectors) {
    if (disk.offset != kSuperblockSector) {
        return fail(Errc::corrupt, "Not a bcache superblock (bad offset)");
    }
    if (disk.magic != kMagic) return fail(Errc::corrupt, "Not a bcache superblock (bad magic)");
    if (disk.csum != checksum(sb.raw, disk.keys)) return fail(Errc::corrupt, "Bad checksum");
    if (sb.uuid.is_zero()) return fail(Errc::corrupt, "Bad UUID");
    // Block size 0 would divide by zero later; the kernel refuses it here because no device has
    // smaller blocks.
    if (sb.block_size < std::max<std::uint32_t>(logical_block_sectors, 1)) {
        return fail(Errc::unsupported, "Superblock block size smaller than device block size");
    }
    if ((sb.version == 4 || sb.version == 6) && sb.nbuckets_or_offset < kDefaultDataOffset) {
        return fail(Errc::corrupt, "Bad data offset");
    }
    TRY_OK(check_features(sb));
    if (!sb.is_backing() && !sb.is_cache()) {
        return fail(Errc::unsupported, "Unsupported superblock version");
    }
    return {};
}

// Beyond the kernel's checks, which leave it to the block layer to refuse such sizes.
Result<void> check_backing(const Superblock& sb, std::uint64_t device_sectors) {
    if (!std::has_single_bit(sb.block_size)) {
        return fail(Errc::corrupt, "Bad block size (not power of 2)");
    }
    if (sb.keys > kMaxJournalBuckets) return fail(Errc::corrupt, "Too many journal buckets");
    if (sb.data_offset() >= device_sectors) {
        return fail(Errc::corrupt, "Invalid superblock: device too small");
    }
    return {};
}

Result<void> check_geometry(const Superblock& sb, std::uint64_t device_sectors) {
    const std::uint64_t nbuckets = sb.nbuckets_or_offset;
    const std::uint64_t bucket = sb.bucket_sectors();
    if (sb.keys > kMaxJournalBuckets || std::uint64_t{sb.first_bucket} + sb.keys > nbuckets) {
        return fail(Errc::corrupt, "Too many journal buckets");
    }
    if (nbuckets >> 63 != 0) return fail(Errc::corrupt, "Too many buckets");
    // Bucket numbers here have 32 bits: no 43-bit pointer reaches further with sane buckets.
    if (nbuckets > UINT32_MAX) return fail(Errc::unsupported, "Too many buckets");
    if (nbuckets < 128) return fail(Errc::corrupt, "Not enough buckets");
    if (!std::has_single_bit(sb.block_size)) {
        return fail(Errc::corrupt, "Bad block size (not power of 2)");
    }
    if (sb.block_size > kPageSectors) {
        return fail(Errc::unsupported, "Bad block size (larger than page size)");
    }
    if (!std::has_single_bit(bucket))
        return fail(Errc::corrupt, "Bad bucket size (not power of 2)");
    if (bucket < kPageSectors) {
        return fail(Errc::corrupt, "Bad bucket size (smaller than page size)");
    }
    // bucket <= 2^31 (bucket_sectors()) and nbuckets < 2^32: no overflow.
    if (device_sectors < bucket * nbuckets) {
        return fail(Errc::corrupt, "Invalid superblock: device too small");
    }
    return {};
}

Result<void> check_cache(const Superblock& sb, std::uint64_t device_sectors) {
    if (sb.version == 5 && (sb.feature_incompat & kObsoleteLargeBucket) != 0) {
        return fail(Errc::unsupported, "Obsolete large bucket layout is not supported");
    }
    TRY_OK(check_geometry(sb, device_sectors));
    if (sb.set_uuid.is_zero()) return fail(Errc::corrupt, "Bad UUID");
    if (sb.nr_in_set <= sb.nr_this_dev || sb.nr_in_set > 8) {
        return fail(Errc::corrupt, "Bad cache device number in set");
    }
    if (sb.nr_in_set != 1) {
        return fail(Errc::unsupported, "More than one cache device per set is not supported");
    }
    for (std::uint32_t i = 0; i < sb.keys; ++i) {
        if (sb.d[i] != std::uint64_t{sb.first_bucket} + i) {
            return fail(Errc::corrupt, "Journal buckets not sequential");
        }
    }
    if (sb.first_bucket * sb.bucket_sectors() < 16) {
        return fail(Errc::corrupt, "Invalid superblock: first bucket comes before end of super");
    }
    if (sb.nbuckets_or_offset < kMinRunnableBuckets) {
        return fail(Errc::unsupported, "cache device is too small");
    }
    return {};
}

}  // namespace

std::uint64_t Superblock::bucket_sectors() const {
    if (version >= 5) {
        if ((feature_incompat & kLargeBucket) != 0) {
            // Larger ones do not fit anywhere; 0 is refused as "not a power of 2".
            return bucket_size_raw < 32 ? std::uint64_t{1} << bucket_size_raw : 0;
        }
        if ((feature_incompat & kObsoleteLargeBucket) != 0) {
            return bucket_size_raw + (std::uint64_t{obso_bucket_size_hi} << 16);
        }
    }
    return bucket_size_raw;
}

Geometry Superblock::geometry() const {
    return Geometry{
        .block_sectors = block_size,
        .bucket_sectors = static_cast<std::uint32_t>(bucket_sectors()),
        .nbuckets = nbuckets_or_offset,
        .first_bucket = first_bucket,
        .njournal = keys,
    };
}

std::string Superblock::label_text() const {
    return std::string(label.begin(), std::find(label.begin(), label.end(), '\0'));
}

Superblock parse_superblock(std::span<const std::byte> bytes) {
    const SuperblockDisk disk = disk_form(bytes);
    Superblock sb;
    std::copy_n(bytes.begin(), kSuperblockBytes, sb.raw.begin());
    sb.version = disk.version;
    sb.uuid.bytes = disk.uuid;
    sb.set_uuid.bytes = disk.set_uuid;
    sb.label = disk.label;
    sb.flags = disk.flags;
    sb.seq = disk.seq;
    sb.feature_compat = disk.feature_compat;
    sb.feature_incompat = disk.feature_incompat;
    sb.feature_ro_compat = disk.feature_ro_compat;
    sb.nbuckets_or_offset = disk.nbuckets_or_offset;
    sb.block_size = disk.block_size;
    sb.bucket_size_raw = disk.bucket_size;
    sb.nr_in_set = disk.nr_in_set;
    sb.nr_this_dev = disk.nr_this_dev;
    sb.last_mount = disk.last_mount;
    sb.first_bucket = disk.first_bucket;
    sb.keys = disk.keys;
    std::copy(disk.d.begin(), disk.d.end(), sb.d.begin());
    sb.obso_bucket_size_hi = disk.obso_bucket_size_hi;
    return sb;
}

SuperblockSums superblock_sums(std::span<const std::byte> bytes) {
    const SuperblockDisk disk = disk_form(bytes);
    return {.stored = disk.csum, .computed = checksum(bytes, disk.keys)};
}

bool has_superblock_magic(std::span<const std::byte> bytes) {
    return disk_form(bytes).magic == kMagic;
}

Result<Superblock> decode_superblock(std::span<const std::byte> bytes, std::uint64_t device_sectors,
                                     std::uint32_t logical_block_sectors) {
    Superblock sb = parse_superblock(bytes);
    TRY_OK(check_common(sb, disk_form(bytes), logical_block_sectors));
    if (sb.is_backing()) {
        TRY_OK(check_backing(sb, device_sectors));
    } else {
        TRY_OK(check_cache(sb, device_sectors));
    }
    return sb;
}

std::array<std::byte, kSuperblockBytes> encode_superblock(const Superblock& sb) {
    SuperblockDisk disk = disk_form(sb.raw);
    disk.offset = kSuperblockSector;
    disk.version = sb.version;
    disk.magic = kMagic;
    disk.uuid = sb.uuid.bytes;
    disk.set_uuid = sb.set_uuid.bytes;
    disk.label = sb.label;
    disk.flags = sb.flags;
    disk.seq = sb.seq;
    disk.feature_compat = sb.feature_compat;
    disk.feature_incompat = sb.feature_incompat;
    disk.feature_ro_compat = sb.feature_ro_compat;
    disk.nbuckets_or_offset = sb.nbuckets_or_offset;
    disk.block_size = sb.block_size;
    disk.bucket_size = sb.bucket_size_raw;
    disk.nr_in_set = sb.nr_in_set;
    disk.nr_this_dev = sb.nr_this_dev;
    disk.last_mount = sb.last_mount;
    disk.first_bucket = sb.first_bucket;
    disk.keys = sb.keys;
    std::copy_n(sb.d.begin(), std::min(sb.keys, kMaxJournalBuckets), disk.d.begin());
    disk.obso_bucket_size_hi = sb.obso_bucket_size_hi;

    std::array<std::byte, kSuperblockBytes> out;
    std::memcpy(out.data(), &disk, sizeof disk);
    disk.csum = checksum(out, sb.keys);
    std::memcpy(out.data(), &disk, sizeof disk);
    return out;
}

const char* name_of(CacheMode mode) {
    switch (mode) {
        case CacheMode::writethrough:
            return "writethrough";
        case CacheMode::writeback:
            return "writeback";
        case CacheMode::writearound:
            return "writearound";
        case CacheMode::none:
            return "none";
    }
    return "unknown";
}

const char* name_of(BackingState state) {
    switch (state) {
        case BackingState::none:
            return "no cache";
        case BackingState::clean:
            return "clean";
        case BackingState::dirty:
            return "dirty";
        case BackingState::stale:
            return "inconsistent";
    }
    return "unknown";
}

const char* name_of(Replacement policy) {
    switch (policy) {
        case Replacement::lru:
            return "lru";
        case Replacement::fifo:
            return "fifo";
        case Replacement::random:
            return "random";
    }
    return "unknown";
}

}  // namespace uc::ondisk
