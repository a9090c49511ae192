// Superblocks: the input is the 4096 bytes. Anything can be parsed for display; an accepted one is
// the same when encoded, and its geometry can be computed with.
#include "base/check.h"
#include "fuzz_bytes.h"
#include "ondisk/superblock.h"

namespace uc {
namespace {

constexpr std::uint64_t kDeviceSectors = std::uint64_t{1} << 40;

void check_geometry(const ondisk::Superblock& sb) {
    const ondisk::Geometry geometry = sb.geometry();
    CHECK(geometry.nbuckets >= 513);
    CHECK(geometry.bucket_start(static_cast<BucketIndex>(geometry.nbuckets)) <= kDeviceSectors);
    CHECK(geometry.first_bucket + std::uint64_t{geometry.njournal} <= geometry.nbuckets);
    CHECK(geometry.prio_buckets() >= 1);
    CHECK(geometry.node_sectors() >= 8);
    CHECK(geometry.node_sectors() <= geometry.bucket_sectors);
    CHECK(geometry.blocks(1) == 1);
}

void decode(const fuzz::Bytes& bytes) {
    const ondisk::Superblock parsed = ondisk::parse_superblock(bytes);
    static_cast<void>(parsed.label_text());
    static_cast<void>(parsed.bucket_sectors());
    static_cast<void>(ondisk::name_of(parsed.cache_mode()));
    static_cast<void>(ondisk::name_of(parsed.state()));
    static_cast<void>(ondisk::name_of(parsed.replacement()));

    const auto sb = ondisk::decode_superblock(bytes, kDeviceSectors, 1);
    if (!sb) return;
    const auto again = ondisk::encode_superblock(*sb);
    CHECK(std::equal(again.begin(), again.end(), bytes.begin()));
    if (sb->is_cache()) check_geometry(*sb);
    if (sb->is_backing()) CHECK(sb->data_offset() < kDeviceSectors);
}

}  // namespace
}  // namespace uc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace uc;
    fuzz::Bytes bytes = fuzz::resized(fuzz::input(data, size), ondisk::kSuperblockBytes);
    decode(bytes);

    constexpr std::uint8_t magic[] = {0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca,
                                      0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81};
    fuzz::store(bytes, 8, ondisk::kSuperblockSector);
    std::memcpy(bytes.data() + 24, magic, sizeof magic);
    fuzz::store(bytes, 0, ondisk::superblock_sums(bytes).computed);
    CHECK(ondisk::has_superblock_magic(bytes));
    decode(bytes);
    return 0;
}
