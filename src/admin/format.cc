// Formatting in two passes: every device is opened, locked and checked before the first byte is
// written to any of them, so a refusal changes nothing.
//
// What is written to a cache device, in this order: zeroes over the first block of each bucket that
// will be a journal bucket (a reused set uuid would make entries of the device's former life valid,
// format section 11.20), zeroes over sectors 0..7 (old signatures), and last the superblock. The
// journal is not cleared in the classic form, which leaves the bytes that bcache-tools leaves.
#include "admin/format.h"

#include <fmt/format.h>
#include <uuid/uuid.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "admin/block_file.h"
#include "admin/device_identity.h"
#include "admin/signatures.h"
#include "admin/size_text.h"
#include "io/buffer.h"

namespace uc::admin {

namespace {

using ondisk::Geometry;
using ondisk::Superblock;
using Kind = Refusal::Kind;
template <class T>
using Checked = tl::expected<T, Refusal>;

constexpr std::uint32_t kDefaultBucketSectors = 1024;
constexpr std::uint32_t kPageSectors = 8;
constexpr std::uint64_t kClassicMinBuckets = 128;
constexpr std::uint64_t kMinBuckets = 513;  // what the kernel and the engine need
constexpr std::uint64_t kGoodBuckets = 1024;
// As much of the superblock as the format tools know (format section 1.2).
constexpr std::size_t kToolSuperblockBytes = 2256;

tl::unexpected<Refusal> refuse(Kind kind, const std::string& path, std::string detail = {},
                               int sys = 0) {
    Refusal refusal;
    refusal.kind = kind;
    refusal.path = path;
    refusal.detail = std::move(detail);
    refusal.sys = sys;
    return tl::unexpected(std::move(refusal));
}

ondisk::Uuid random_uuid() {
    ondisk::Uuid uuid;
    uuid_generate(uuid.bytes.data());
    return uuid;
}

Checked<std::uint32_t> common_block_sectors(const FormatOptions& options) {
    if (options.block_sectors) return *options.block_sectors;
    std::uint32_t bytes = kSectorBytes;
    for (const auto* paths : {&options.caches, &options.backings}) {
        for (const std::string& path : *paths) {
            const Result<std::uint32_t> own = natural_block_bytes(path);
            if (!own) return refuse(Kind::cannot_stat, path, {}, own.error().sys);
            bytes = std::max(bytes, *own);
        }
    }
    // A file system may prefer huge I/O (ZFS: 128 KiB); blocks above a page work nowhere.
    if (!options.classic) bytes = std::min<std::uint32_t>(bytes, kPageSectors * kSectorBytes);
    return bytes / static_cast<std::uint32_t>(kSectorBytes);
}

// Of a backing device that is dirty: where the rest of its data is; else empty.
std::string data_elsewhere(const Superblock& sb) {
    if (sb.is_cache() || sb.state() != ondisk::BackingState::dirty) return {};
    return fmt::format("the cache device of set {}", sb.set_uuid.to_string());
}

// Opens, locks and looks for what must not be destroyed.
Checked<BlockFile> open_for_format(const std::string& path, const FormatOptions& options) {
    const std::string unfit = options.classic ? std::string() : unfit_reason(path);
    if (!unfit.empty()) return refuse(Kind::unsuitable, path, unfit);
    std::string holder;
    Result<BlockFile> file = BlockFile::open(path, BlockFile::Access::write, &holder);
    if (!file) {
        const Kind kind = file.error().code == Errc::busy ? Kind::in_use : Kind::cannot_open;
        return refuse(kind, path, holder, file.error().sys);
    }
    std::vector<std::byte> bytes(ondisk::kSuperblockBytes);
    const Result<std::size_t> got = file->read(ondisk::kSuperblockSector * kSectorBytes, bytes);
    if (!got) return refuse(Kind::io, path, "cannot be read", got.error().sys);
    if (*got < kToolSuperblockBytes) return refuse(Kind::too_short, path);
    const bool may_overwrite_bcache = options.wipe_bcache || options.force;
    if (ondisk::has_superblock_magic(bytes) && !may_overwrite_bcache) {
        return refuse(Kind::has_bcache, path, data_elsewhere(ondisk::parse_superblock(bytes)));
    }
    if (options.force) return std::move(*file);
    const Result<std::vector<Signature>> signatures = find_signatures(file->fd());
    if (!signatures) return refuse(Kind::io, path, signatures.error().what);
    for (const Signature& signature : *signatures) {
        // The real 1.0.8 refuses here even what --wipe-bcache allows, since libblkid knows bcache.
        if (signature.is_bcache()) continue;
        return refuse(Kind::has_signature, path,
                      fmt::format("{} ({})", signature.type, signature.usage));
    }
    return std::move(*file);
}

// The largest usual bucket that gives enough buckets; kPageSectors if none does.
std::uint32_t suitable_bucket_sectors(std::uint64_t device_sectors, std::uint32_t block_sectors) {
    std::uint32_t bucket = kDefaultBucketSectors;
    while (bucket > std::max(kPageSectors, block_sectors) &&
           device_sectors / bucket < kGoodBuckets) {
        bucket /= 2;
    }
    return bucket;
}

// "256.5 MiB", but never rounded to less than is needed.
std::string least_size(std::uint64_t buckets, std::uint32_t bucket_sectors) {
    const std::uint64_t bytes = buckets * bucket_sectors * kSectorBytes;
    constexpr std::uint64_t kMebi = 1 << 20;
    return bytes % kMebi == 0 ? pretty_size(bytes) : fmt::format("{} KiB", bytes / 1024);
}

// What to do about a cache with too few buckets.
std::string advice_on_size(std::uint64_t sectors, std::uint32_t bucket, std::uint32_t block) {
    const std::uint32_t smaller = suitable_bucket_sectors(sectors, block);
    const bool helps = smaller < bucket && sectors / smaller >= kMinBuckets;
    std::string advice =
        helps ? fmt::format("use --bucket {}k or leave it out, or a larger device", smaller / 2)
              : std::string("use a larger device");
    return advice + fmt::format(": buckets of {} need {}", pretty_size(bucket * kSectorBytes),
                                least_size(kMinBuckets, bucket));
}

Checked<void> check_friendly(const FormatOptions& options, std::uint32_t block,
                             std::uint32_t bucket, const std::string& path) {
    if (block > kPageSectors) {
        return refuse(Kind::unsuitable, path,
                      "blocks above 4 KiB cannot be used; choose --block 4k or less");
    }
    if (options.bucket_sectors && bucket < kPageSectors) {
        return refuse(Kind::unsuitable, path,
                      "buckets below 4 KiB cannot be used; choose --bucket 4k or more");
    }
    return {};
}

Checked<Superblock> plan_cache(const FormatOptions& options, const BlockFile& file,
                               std::uint32_t block) {
    const std::uint64_t sectors = file.size_bytes() / kSectorBytes;
    const std::uint32_t fitting =
        options.classic ? kDefaultBucketSectors : suitable_bucket_sectors(sectors, block);
    const std::uint32_t bucket = options.bucket_sectors.value_or(fitting);
    if (!options.classic) {
        const Checked<void> sound = check_friendly(options, block, bucket, file.path());
        if (!sound) return tl::unexpected(sound.error());
    }
    Superblock sb;
    sb.nbuckets_or_offset = sectors / bucket;
    const std::uint64_t needed = options.classic ? kClassicMinBuckets : kMinBuckets;
    if (sb.nbuckets_or_offset < needed) {
        std::string detail = fmt::format(
            "{} of {} in {}; {}", sb.nbuckets_or_offset, pretty_size(bucket * kSectorBytes),
            pretty_size(file.size_bytes()), advice_on_size(sectors, bucket, block));
        tl::unexpected<Refusal> refusal = refuse(Kind::too_few_buckets, file.path(), detail);
        refusal.value().buckets = sb.nbuckets_or_offset;
        return refusal;
    }
    if (bucket > 0xFFFF) {  // version 5, log2 (format section 1.6)
        sb.version = 5;
        sb.feature_incompat = 2;
        sb.bucket_size_raw = static_cast<std::uint16_t>(std::countr_zero(bucket));
    } else {
        sb.bucket_size_raw = static_cast<std::uint16_t>(bucket);
    }
    sb.nr_in_set = 1;
    sb.first_bucket = static_cast<std::uint16_t>(Geometry::first_bucket_for(bucket));
    sb.set_discard(options.discard);
    sb.set_replacement(options.replacement);
    return sb;
}

Checked<Superblock> plan_backing(const FormatOptions& options, const BlockFile& file,
                                 std::uint32_t block) {
    Superblock sb;
    sb.version = 1;
    if (options.data_offset != ondisk::kDefaultDataOffset) {
        sb.version = 4;
        sb.nbuckets_or_offset = options.data_offset;
    }
    sb.bucket_size_raw = kDefaultBucketSectors;
    if (options.writeback) sb.set_cache_mode(ondisk::CacheMode::writeback);
    if (options.classic) return sb;
    const Checked<void> sound = check_friendly(options, block, kPageSectors, file.path());
    if (!sound) return tl::unexpected(sound.error());
    if (options.data_offset + block > file.size_bytes() / kSectorBytes) {
        return refuse(Kind::unsuitable, file.path(),
                      fmt::format("{} has no room for data after sector {}; use a larger device "
                                  "or a smaller --data-offset",
                                  pretty_size(file.size_bytes()), options.data_offset));
    }
    return sb;
}

Result<void> clear_journal_area(const BlockFile& file, const Superblock& sb) {
    const std::uint64_t bucket = sb.bucket_sectors();
    const io::Buffer zeroes = io::Buffer::zeroed(sb.block_size * kSectorBytes);
    const std::uint32_t buckets = Geometry::journal_buckets_for(sb.nbuckets_or_offset);
    for (std::uint32_t i = 0; i < buckets; ++i) {
        TRY_OK(file.write((sb.first_bucket + i) * bucket * kSectorBytes, zeroes.span()));
    }
    return file.sync();
}

Result<void> write_superblock(const BlockFile& file, const Superblock& sb) {
    const io::Buffer zeroes = io::Buffer::zeroed(ondisk::kSuperblockSector * kSectorBytes);
    TRY_OK(file.write(0, zeroes.span()));
    const auto bytes = ondisk::encode_superblock(sb);
    TRY_OK(file.write(
        ondisk::kSuperblockSector * kSectorBytes,
        std::span(bytes).first(std::min<std::size_t>(bytes.size(), file.size_bytes() - 4096))));
    return file.sync();
}

Result<void> write_device(const BlockFile& file, const Superblock& sb,
                          const FormatOptions& options) {
    if (options.force) {
        TRY_OK(erase_signatures(file.fd()));
    }
    if (sb.is_cache() && !options.classic) {
        TRY_OK(clear_journal_area(file, sb));
    }
    return write_superblock(file, sb);
}

struct Planned {
    BlockFile file;
    Superblock superblock;
};

Checked<Planned> plan_device(const FormatOptions& options, const std::string& path, bool cache,
                             std::uint32_t block, const ondisk::Uuid& set_uuid) {
    Checked<BlockFile> file = open_for_format(path, options);
    if (!file) return tl::unexpected(file.error());
    Checked<Superblock> sb =
        cache ? plan_cache(options, *file, block) : plan_backing(options, *file, block);
    if (!sb) return tl::unexpected(sb.error());
    sb->block_size = static_cast<std::uint16_t>(block);
    sb->uuid = random_uuid();
    sb->set_uuid = set_uuid;
    std::memcpy(sb->label.data(), options.label.data(),
                std::min(options.label.size(), sb->label.size() - 1));
    return Planned{std::move(*file), *sb};
}

// (The classic form finds a device locked by itself, as the original does.)
Checked<void> check_different(const FormatOptions& options) {
    if (options.classic) return {};
    KnownDevices known;
    for (const auto* paths : {&options.caches, &options.backings}) {
        for (const std::string& path : *paths) {
            const std::string* other = known.meet(path);
            if (other != nullptr) return refuse(Kind::given_twice, path, *other);
        }
    }
    return {};
}

}  // namespace

std::string advice_on_cache(const std::string& path) {
    std::string holder;
    const Result<BlockFile> file = BlockFile::open(path, BlockFile::Access::read, &holder);
    if (!file) return {};
    std::vector<std::byte> bytes(ondisk::kSuperblockBytes);
    const Result<std::size_t> got = file->read(ondisk::kSuperblockSector * kSectorBytes, bytes);
    if (!got || *got < bytes.size() || !ondisk::has_superblock_magic(bytes)) return {};
    const Superblock sb = ondisk::parse_superblock(bytes);
    const std::uint64_t bucket = sb.bucket_sectors();
    const bool plausible = bucket >= kPageSectors && bucket <= UINT32_MAX && sb.block_size != 0 &&
                           sb.nbuckets_or_offset <= UINT32_MAX;
    if (!sb.is_cache() || !plausible) return {};
    const std::uint64_t needed = sb.nbuckets_or_offset * bucket;
    if (needed > file->size_bytes() / kSectorBytes) {
        return fmt::format(
            "it is {} KiB long, but its superblock says {} KiB: it was cut off or is an incomplete "
            "copy; serve the whole one; if that is lost, see ubcache abandon",
            file->size_bytes() / 1024, needed / 2);
    }
    if (sb.nbuckets_or_offset >= kMinBuckets) return {};
    return fmt::format("it has {} buckets and needs {}; make it anew: {}", sb.nbuckets_or_offset,
                       kMinBuckets,
                       advice_on_size(file->size_bytes() / kSectorBytes,
                                      static_cast<std::uint32_t>(bucket), sb.block_size));
}

tl::expected<std::vector<Formatted>, Refusal> format_devices(const FormatOptions& options) {
    const Checked<void> different = check_different(options);
    if (!different) return tl::unexpected(different.error());
    const Checked<std::uint32_t> block = common_block_sectors(options);
    if (!block) return tl::unexpected(block.error());
    // Tool-compatible: the original compares only a block size that was given.
    const bool compare = !options.classic || options.block_sectors;
    if (compare && options.bucket_sectors.value_or(kDefaultBucketSectors) < *block) {
        return refuse(Kind::block_above_bucket, "");
    }
    const ondisk::Uuid set_uuid = options.set_uuid.value_or(random_uuid());
    std::vector<Planned> planned;
    for (const bool cache : {true, false}) {
        for (const std::string& path : cache ? options.caches : options.backings) {
            Checked<Planned> device = plan_device(options, path, cache, *block, set_uuid);
            if (!device) return tl::unexpected(device.error());
            planned.push_back(std::move(*device));
        }
    }
    std::vector<Formatted> done;
    for (const Planned& device : planned) {
        const Result<void> written = write_device(device.file, device.superblock, options);
        if (!written) {
            return refuse(Kind::io, device.file.path(), written.error().what, written.error().sys);
        }
        done.push_back({device.file.path(), device.file.size_bytes(), device.superblock});
    }
    return done;
}

std::string classic_text(const Refusal& refusal) {
    const std::string& path = refusal.path;
    switch (refusal.kind) {
        case Kind::cannot_stat:
            return fmt::format("Error statting {}: {}\n", path, std::strerror(refusal.sys));
        case Kind::cannot_open:
        case Kind::in_use:
            return fmt::format("Can't open dev {}: {}\n", path, std::strerror(refusal.sys));
        case Kind::too_short:
            return {};  // the original says nothing either
        case Kind::has_bcache:
            return fmt::format("Already a bcache device on {}, overwrite with --wipe-bcache\n",
                               path);
        case Kind::has_signature:
            return fmt::format(
                "Device {} already has a non-bcache superblock, remove it using wipefs and "
                "wipefs -a\n",
                path);
        case Kind::block_above_bucket:
            return "Bucket size cannot be smaller than block size\n";
        case Kind::too_few_buckets:
            return fmt::format("Not enough buckets: {}, need {}\n", refusal.buckets,
                               kClassicMinBuckets);
        case Kind::unsuitable:
        case Kind::given_twice:
        case Kind::io:
            break;
    }
    return friendly_text(refusal) + "\n";
}

std::string friendly_text(const Refusal& refusal) {
    const std::string& path = refusal.path;
    const std::string reason =
        refusal.sys == 0 ? std::string() : fmt::format(": {}", std::strerror(refusal.sys));
    switch (refusal.kind) {
        case Kind::cannot_stat:
        case Kind::cannot_open:
            return fmt::format("{}: cannot be opened{}", path, reason);
        case Kind::in_use:
            return fmt::format("{}: is in use ({}); stop its user first", path,
                               refusal.detail.empty() ? "by another program" : refusal.detail);
        case Kind::too_short:
            return fmt::format("{}: is too small for a superblock; use a larger device", path);
        case Kind::has_bcache:
            if (!refusal.detail.empty()) {
                return fmt::format(
                    "{0}: is a bcache backing device and DIRTY: {1} has data of it that is nowhere "
                    "else; to get at all of it, run ubcache serve --cache SSD --backing {0} and "
                    "ubcache flush; only if it may be lost, use --wipe-bcache",
                    path, refusal.detail);
            }
            return fmt::format(
                "{}: already is a bcache device; if its contents may be lost, use --wipe-bcache",
                path);
        case Kind::has_signature:
            return fmt::format(
                "{}: already holds {}; if that may be lost, use --force or erase it with "
                "wipefs -a",
                path, refusal.detail);
        case Kind::block_above_bucket:
            return "the bucket size is smaller than the block size; choose a larger --bucket";
        case Kind::too_few_buckets:
            return fmt::format("{}: a cache needs more than {} buckets, this has {}", path,
                               kMinBuckets - 1, refusal.detail);
        case Kind::given_twice:
            return given_twice(path, refusal.detail);
        case Kind::unsuitable:
            return fmt::format("{}: {}", path, refusal.detail);
        case Kind::io:
            return fmt::format("{}: {}{}", path, refusal.detail, reason);
    }
    return {};
}

}  // namespace uc::admin
