#include "admin/alone.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <utility>

#include "admin/block_file.h"
#include "base/check.h"
#include "io/buffer.h"
#include "io/mem_device.h"
#include "ondisk/superblock.h"

namespace uc::admin {

namespace {

using ondisk::BackingState;
using ondisk::Superblock;

ondisk::Uuid random_uuid() {
    ondisk::Uuid uuid;
    CHECK(getrandom(uuid.bytes.data(), uuid.bytes.size(), 0) ==
          static_cast<ssize_t>(uuid.bytes.size()));
    return uuid;
}

Outcome<Superblock> leave_cache_behind(const std::string& path) {
    std::string holder;
    const Result<BlockFile> file = BlockFile::open(path, BlockFile::Access::write, &holder);
    if (!file) {
        return tl::unexpected(explain(path, file.error()) +
                              (holder.empty() ? std::string() : ": " + holder));
    }
    std::array<std::byte, ondisk::kSuperblockBytes> bytes{};
    const std::uint64_t at = ondisk::kSuperblockSector * kSectorBytes;
    const Result<std::size_t> got = file->read(at, bytes);
    if (!got) return tl::unexpected(explain(path, got.error()));
    auto superblock = ondisk::decode_superblock(bytes, file->size_bytes() / kSectorBytes, 1);
    if (!superblock) return tl::unexpected(explain(path + ": superblock", superblock.error()));
    if (!superblock->is_backing()) {
        return tl::unexpected(path + ": this is a cache device, not a backing device");
    }
    if (superblock->state() == BackingState::dirty) {
        return tl::unexpected(
            path +
            ": is dirty: its newest data is in its cache device; serve it with that, or "
            "give that data up with 'ubcache abandon'");
    }
    if (superblock->state() != BackingState::clean) return std::move(*superblock);
    superblock->set_state(BackingState::stale);
    bytes = ondisk::encode_superblock(*superblock);
    Result<void> done = file->write(at, bytes);
    if (done) done = file->sync();
    if (!done) return tl::unexpected(explain(path, done.error()));
    return std::move(*superblock);
}

// As small as the engine takes.
Task<Outcome<std::shared_ptr<io::BlockDevice>>> empty_cache(std::uint16_t block_sectors) {
    constexpr std::uint64_t kBuckets = 600;
    constexpr std::uint32_t kLeastBucketSectors = 8;
    constexpr std::uint32_t kLeastBlocks = 4;  // in a bucket
    const std::uint32_t wanted = std::max(kLeastBucketSectors, kLeastBlocks * block_sectors);
    const auto bucket_sectors = static_cast<std::uint16_t>(wanted);
    const std::uint64_t sectors = kBuckets * bucket_sectors;
    Superblock superblock;
    superblock.version = 3;
    superblock.uuid = random_uuid();
    superblock.set_uuid = random_uuid();
    superblock.nbuckets_or_offset = kBuckets;
    superblock.block_size = block_sectors;
    superblock.bucket_size_raw = bucket_sectors;
    superblock.nr_in_set = 1;
    superblock.first_bucket =
        static_cast<std::uint16_t>(ondisk::Geometry::first_bucket_for(bucket_sectors));
    auto device = io::MemDevice::create(sectors, "no cache device");
    if (!device) co_return tl::unexpected(explain("no cache device", device.error()));
    io::Buffer buffer(ondisk::kSuperblockBytes);
    const auto bytes = ondisk::encode_superblock(superblock);
    std::ranges::copy(bytes, buffer.data());
    io::MemDevice& memory = **device;
    const Result<void> written =
        co_await memory.write(ondisk::kSuperblockSector, buffer.span(), true);
    if (!written) co_return tl::unexpected(explain("no cache device", written.error()));
    co_return std::shared_ptr<io::BlockDevice>(std::move(*device));
}

}  // namespace

Task<Outcome<std::shared_ptr<io::BlockDevice>>> go_without_cache(
    std::vector<std::string> backings) {
    // The coarsest block: no finer than that of any set that one of them belongs to.
    std::uint16_t block_sectors = 1;
    for (const std::string& path : backings) {
        CO_TRY(const Superblock superblock, leave_cache_behind(path));
        block_sectors = std::max(block_sectors, superblock.block_size);
    }
    co_return co_await empty_cache(block_sectors);
}

}  // namespace uc::admin
