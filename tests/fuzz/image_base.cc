#include "image_base.h"

#include <algorithm>

#include "fuzz_bytes.h"
#include "golden_image.h"
#include "ondisk/bset.h"
#include "ondisk/checksum.h"
#include "ondisk/jset.h"
#include "ondisk/magic.h"

namespace uc::fuzz {

namespace {

constexpr std::uint64_t kPage = 8;  // sectors

Disk load_disk(golden::Image& image) {
    Disk disk{sim::Contents(image.sectors()), image.sectors()};
    constexpr std::uint64_t kStep = 2048;
    for (std::uint64_t at = 0; at < image.sectors(); at += kStep) {
        const Bytes bytes = image.read(at, std::min(kStep, image.sectors() - at));
        for (std::uint64_t i = 0; i < bytes.size(); i += kPage * kSectorBytes) {
            const std::size_t size = std::min<std::size_t>(bytes.size() - i, kPage * kSectorBytes);
            const std::span<const std::byte> page = std::span(bytes).subspan(i, size);
            // Not byte by byte: each comparison would be watched for coverage.
            static const Bytes zeroes(kPage * kSectorBytes);
            if (std::memcmp(page.data(), zeroes.data(), size) == 0) continue;
            disk.contents.write(at + i / kSectorBytes, page);
        }
    }
    return disk;
}

class Surveyor {
public:
    explicit Surveyor(BaseSet& base) : base_(base) {}

    void survey() {
        const Disk& cache = base_.disks.front();
        const auto sb = ondisk::parse_superblock(read_sectors(cache, ondisk::kSuperblockSector, 8));
        base_.geometry = sb.geometry();
        base_.magic = sb.set_uuid.magic();
        for (unsigned i = 0; i < base_.disks.size(); ++i) {
            add(Part::superblock, i, ondisk::kSuperblockSector, 8);
        }
        for (std::uint32_t i = 0; i < base_.geometry.njournal; ++i) {
            slot(base_.geometry.bucket_start(base_.geometry.first_bucket + i));
        }
        if (newest_.seq == 0) return;
        add(Part::priorities, 0, newest_.prio_bucket[0] * base_.geometry.bucket_sectors,
            base_.geometry.metadata_sectors());
        add(Part::uuids, 0, newest_.uuid_bucket.ptr().sector(), base_.geometry.metadata_sectors());
        node(newest_.btree_root, newest_.btree_level);
    }

private:
    void add(Part part, unsigned disk, std::uint64_t sector, std::uint64_t sectors,
             std::uint64_t seed = 0) {
        base_.places.push_back({part, disk, sector, sectors, seed});
    }

    void slot(std::uint64_t sector) {
        const Bytes bytes =
            read_sectors(base_.disks.front(), sector, base_.geometry.bucket_sectors);
        std::span<const std::byte> rest = bytes;
        while (const auto jset = ondisk::decode_jset(rest, base_.magic)) {
            const std::uint64_t blocks = base_.geometry.blocks(ondisk::jset_bytes(*jset));
            const std::uint64_t used = blocks * base_.geometry.block_bytes();
            add(Part::entry, 0, sector + (bytes.size() - rest.size()) / kSectorBytes,
                used / kSectorBytes);
            if (jset->seq > newest_.seq) newest_ = *jset;
            if (used >= rest.size()) return;
            rest = rest.subspan(used);
        }
    }

    void node(const ondisk::Key& pointer, unsigned level) {
        const std::uint64_t sector = pointer.ptr().sector();
        const Bytes bytes = read_sectors(base_.disks.front(), sector, pointer.size());
        const auto image = ondisk::decode_node(bytes, base_.magic, pointer.ptr().raw(),
                                               base_.geometry, true, nullptr);
        if (!image) return;
        const std::uint32_t block = base_.geometry.block_sectors;
        for (const ondisk::Bset& set : image->sets) {
            add(Part::node_set, 0, sector + std::uint64_t{set.block} * block,
                std::uint64_t{set.blocks} * block, pointer.ptr().raw());
            if (level == 0) continue;
            for (const ondisk::Key& child : set.keys) node(child, level - 1);
        }
    }

    BaseSet& base_;
    ondisk::Jset newest_;
};

// The magic word, then the checksum over `size` bytes.
void seal(Bytes& bytes, std::size_t magic_at, std::uint64_t magic, std::uint64_t size,
          std::uint64_t seed) {
    store(bytes, magic_at, magic);
    if (size < 8 || size > bytes.size()) return;
    store(bytes, 0, ondisk::crc64(std::span(bytes).subspan(8, size - 8), seed));
}

}  // namespace

std::vector<std::byte> read_sectors(const Disk& disk, std::uint64_t sector, std::uint64_t sectors) {
    Bytes bytes(sectors * kSectorBytes);
    if (sector + sectors <= disk.sectors) disk.contents.read(sector, bytes);
    return bytes;
}

void repair(const BaseSet& base, const Place& place, Bytes& bytes) {
    const std::uint64_t keys = load<std::uint32_t>(bytes, 28);
    switch (place.part) {
        case Part::superblock: {
            const auto fields = ondisk::encode_superblock(ondisk::parse_superblock(bytes));
            bytes.assign(fields.begin(), fields.end());
            break;
        }
        case Part::entry:
            seal(bytes, 8, base.magic ^ ondisk::kJsetMagic, 240 + 8 * keys, ~0ull);
            break;
        case Part::priorities:
            seal(bytes, 8, base.magic ^ ondisk::kPrioMagic, bytes.size(), ~0ull);
            break;
        case Part::node_set: {
            const bool unseeded = load<std::uint32_t>(bytes, 24) == 0;
            seal(bytes, 8, base.magic ^ ondisk::kBsetMagic, 32 + 8 * keys,
                 unseeded ? ~0ull : place.seed);
            break;
        }
        default:
            break;
    }
}

std::vector<BaseSet> load_base_sets() {
    std::vector<BaseSet> sets;
    for (const std::string& name : golden::set_names()) {
        BaseSet base;
        base.name = name;
        for (const auto& path : golden::images_of(name)) {
            golden::Image image(path);
            if (!image.is_open()) continue;
            const bool cache = path.filename() == "cache.img.zst";
            base.disks.insert(cache ? base.disks.begin() : base.disks.end(), load_disk(image));
        }
        if (base.disks.empty()) continue;
        Surveyor(base).survey();
        sets.push_back(std::move(base));
    }
    return sets;
}

}  // namespace uc::fuzz
