#include "anatomy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace uc::golden {

using ondisk::Key;

Anatomy::Anatomy(FileBytes& file) : file_(file) {
    superblock_ = ondisk::parse_superblock(read(ondisk::kSuperblockSector, 8));
    geometry_ = superblock_.geometry();
    magic_ = superblock_.set_uuid.magic();
    for (std::uint32_t i = 0; i < geometry_.njournal; ++i) read_slot(geometry_.first_bucket + i);
    std::ranges::sort(entries_, {}, [](const PlacedEntry& entry) { return entry.jset.seq; });
    if (!entries_.empty()) walk(newest().jset.btree_root, newest().jset.btree_level);
}

std::vector<std::byte> Anatomy::read(std::uint64_t sector, std::uint64_t sectors) const {
    std::vector<std::byte> bytes(sectors * kSectorBytes);
    EXPECT_TRUE(file_.read(sector * kSectorBytes, bytes));
    return bytes;
}

void Anatomy::read_slot(BucketIndex bucket) {
    const std::vector<std::byte> bytes =
        read(geometry_.bucket_start(bucket), geometry_.bucket_sectors);
    std::size_t at = 0;
    while (at < bytes.size()) {
        auto jset = ondisk::decode_jset(std::span(bytes).subspan(at), magic_);
        if (!jset) return;
        const std::size_t used =
            std::size_t{geometry_.blocks(ondisk::jset_bytes(*jset))} * geometry_.block_bytes();
        entries_.push_back(
            {geometry_.bucket_start(bucket) + at / kSectorBytes, bucket, std::move(*jset)});
        at += used;
    }
}

std::vector<PlacedEntry> Anatomy::replayed() const {
    std::vector<PlacedEntry> needed;
    std::ranges::copy_if(entries_, std::back_inserter(needed), [this](const PlacedEntry& entry) {
        return entry.jset.seq >= newest().jset.last_seq;
    });
    return needed;
}

void Anatomy::walk(const Key& key, unsigned level) {
    PlacedNode node{
        key, static_cast<BucketIndex>(geometry_.bucket_of(key.ptr().sector())), level, {}};
    auto image = ondisk::decode_node(read(key.ptr().sector(), key.size()), magic_, key.ptr().raw(),
                                     geometry_, false, nullptr);
    ASSERT_TRUE(image);
    node.image = std::move(*image);
    nodes_.push_back(node);
    if (level == 0) return;
    // The last pointer at a position is the one in use: replaced nodes stay behind as stale ones.
    std::map<ondisk::Pos, Key> children;
    for (const ondisk::Bset& set : node.image.sets) {
        for (const Key& child : set.keys) {
            if (child.pos() != ondisk::kPosZero) children[child.pos()] = child;
        }
    }
    for (const auto& [pos, child] : children) walk(child, level - 1);
}

const PlacedNode* Anatomy::leaf(std::size_t sets) const {
    const auto found = std::ranges::find_if(nodes_, [&](const PlacedNode& node) {
        return node.level == 0 && node.image.sets.size() >= sets;
    });
    return found == nodes_.end() ? nullptr : &*found;
}

void Anatomy::flip(std::uint64_t sector, std::uint64_t byte) {
    std::vector<std::byte> bytes = read(sector + byte / kSectorBytes, 1);
    bytes[byte % kSectorBytes] ^= std::byte{0x10};
    ASSERT_TRUE(file_.write((sector + byte / kSectorBytes) * kSectorBytes, bytes));
}

void Anatomy::clear(std::uint64_t sector) {
    ASSERT_TRUE(file_.write(sector * kSectorBytes, std::vector<std::byte>(kSectorBytes)));
}

void Anatomy::write(const PlacedEntry& entry) {
    const std::size_t blocks = geometry_.blocks(ondisk::jset_bytes(entry.jset));
    std::vector<std::byte> bytes(blocks * geometry_.block_bytes());
    ondisk::encode_jset(entry.jset, magic_, bytes);
    ASSERT_TRUE(file_.write(entry.sector * kSectorBytes, bytes));
}

std::uint64_t Anatomy::sector_of_set(const PlacedNode& node, std::size_t index) const {
    const std::uint64_t block = node.image.sets[index].block;
    return node.key.ptr().sector() + block * geometry_.block_sectors;
}

void Anatomy::write_set(const PlacedNode& node, std::size_t index, const std::vector<Key>& keys) {
    const std::size_t blocks = node.image.sets[index].blocks;
    ASSERT_LE(ondisk::bset_bytes(keys), blocks * geometry_.block_bytes());
    std::vector<std::byte> bytes(blocks * geometry_.block_bytes());
    ondisk::encode_bset(keys, node.image.seq, magic_, node.key.ptr().raw(), bytes);
    ASSERT_TRUE(file_.write(sector_of_set(node, index) * kSectorBytes, bytes));
}

}  // namespace uc::golden
