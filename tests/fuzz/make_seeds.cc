// Writes the starting inputs of the fuzz targets, taken from the golden images: a folder for each
// target under the given directory. Nodes and tables are cut to the part that says something.
#include <cstdio>

#include "fuzz_bytes.h"
#include "golden_image.h"
#include "ondisk/bset.h"
#include "ondisk/jset.h"
#include "ondisk/superblock.h"

namespace uc {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kJsetsPerSet = 8;

class SeedWriter {
public:
    explicit SeedWriter(fs::path directory) : directory_(std::move(directory)) {}

    void write(const char* target, std::span<const std::byte> bytes) {
        fs::create_directories(directory_ / target);
        std::ofstream file(directory_ / target / std::to_string(count_++), std::ios::binary);
        file.write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
    }

private:
    fs::path directory_;
    unsigned count_ = 0;
};

std::span<const std::byte> cut(std::span<const std::byte> bytes, std::size_t size) {
    return bytes.first(std::min(bytes.size(), size));
}

ondisk::Jset write_journal(golden::Image& image, const ondisk::Superblock& sb, SeedWriter& seeds) {
    const ondisk::Geometry geometry = sb.geometry();
    ondisk::Jset newest;
    std::size_t written = 0;
    for (std::uint32_t slot = 0; slot < geometry.njournal; ++slot) {
        const fuzz::Bytes bucket = image.read(geometry.bucket_start(geometry.first_bucket + slot),
                                              geometry.bucket_sectors);
        std::span<const std::byte> rest = bucket;
        while (const auto jset = ondisk::decode_jset(rest, sb.set_uuid.magic())) {
            const std::size_t size = ondisk::jset_bytes(*jset);
            if (written++ < kJsetsPerSet) {
                seeds.write("jset", rest.first(size));
                seeds.write("key", rest.subspan(240, size - 240));
            }
            if (jset->seq > newest.seq) newest = *jset;
            rest = rest.subspan(std::min<std::size_t>(
                rest.size(), std::size_t{geometry.blocks(size)} * geometry.block_bytes()));
        }
    }
    return newest;
}

// The root, and the nodes below it if there are any.
void write_nodes(golden::Image& image, const ondisk::Superblock& sb, const ondisk::Key& pointer,
                 unsigned level, SeedWriter& seeds) {
    const ondisk::Geometry geometry = sb.geometry();
    const fuzz::Bytes bytes = image.read(pointer.ptr().sector(), pointer.size());
    const auto node = ondisk::decode_node(bytes, sb.set_uuid.magic(), pointer.ptr().raw(), geometry,
                                          true, nullptr);
    if (!node) return;
    seeds.write("bset", cut(bytes, (std::size_t{node->next_block} + 1) * geometry.block_bytes()));
    if (level == 0) return;
    for (const ondisk::Bset& set : node->sets) {
        for (const ondisk::Key& key : set.keys) write_nodes(image, sb, key, level - 1, seeds);
    }
}

void write_image(golden::Image& image, SeedWriter& seeds) {
    const fuzz::Bytes bytes = image.read(ondisk::kSuperblockSector, 8);
    const auto sb = ondisk::decode_superblock(bytes, image.sectors(), 1);
    if (!sb) return;
    seeds.write("superblock", bytes);
    if (sb->is_backing()) return;
    const ondisk::Jset newest = write_journal(image, *sb, seeds);
    write_nodes(image, *sb, newest.btree_root, newest.btree_level, seeds);
    seeds.write(
        "prio",
        image.read(sb->geometry().bucket_start(static_cast<BucketIndex>(newest.prio_bucket[0])),
                   8));
    seeds.write("uuid", cut(image.read(newest.uuid_bucket.ptr().sector(), 1), 512));
}

}  // namespace
}  // namespace uc

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: make_seeds DIRECTORY\n");
        return 1;
    }
    uc::SeedWriter seeds(argv[1]);
    std::uint8_t number = 0;
    for (const std::string& set : uc::golden::set_names()) {
        // Of the whole sets: the set as it is.
        const std::byte unchanged{number++};
        seeds.write("image", {&unchanged, 1});
        for (const auto& path : uc::golden::images_of(set)) {
            uc::golden::Image image(path);
            if (image.is_open()) uc::write_image(image, seeds);
        }
    }
    return 0;
}
