// Sets of a b-tree node (format sections 5.2 and 5.3).
//
// A node has no header of its own and no length: its sets lie block after block from its start, and
// every one carries the random number (`seq`) that the first one chose. The list ends at the first
// block that carries another number. That makes an append a single write that changes nothing
// before it, and it makes two things essential: a block beyond the end that happens to carry the
// number proves corruption, because a later append would connect to it; and a set whose header is
// right but whose checksum is not is an append that was cut by a crash. Only the last set can be
// cut, since appends to a node never overlap in time.
#include "ondisk/bset.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ondisk/checksum.h"
#include "ondisk/magic.h"

namespace uc::ondisk {

namespace {

constexpr std::size_t kHeader = sizeof(BsetHeader);
constexpr std::size_t kCsumSkip = 8;

// Decodes keys until `words` is used up. Fails at the first that does not decode; those before it
// stay in `keys`.
Result<void> decode_keys(std::span<const std::byte> words, std::vector<Key>& keys) {
    keys.reserve(words.size() / kKeyMaxBytes);
    while (!words.empty()) {
        TRY(const Key key, decode_key(words));
        keys.push_back(key);
    }
    return {};
}

class NodeReader {
public:
    NodeReader(std::span<const std::byte> node, std::uint64_t set_magic, std::uint64_t seed,
               const Geometry& geometry)
        : node_(node),
          magic_(set_magic ^ kBsetMagic),
          seed_(seed),
          geometry_(geometry),
          nblocks_(static_cast<std::uint32_t>(node.size() / geometry.block_bytes())) {}

    Result<NodeImage> read(bool tolerate_torn);
    std::uint32_t block() const { return block_; }

private:
    BsetHeader header_at(std::uint32_t block) const {
        BsetHeader header;
        std::memcpy(&header, node_.data() + std::size_t{block} * geometry_.block_bytes(), kHeader);
        return header;
    }
    bool carries_seq(std::uint32_t block) const { return header_at(block).seq == image_.seq; }
    std::uint32_t blocks_of(const BsetHeader& header) const {
        return geometry_.blocks(kHeader + 8 * std::uint64_t{header.keys});
    }
    // Bytes of the set at block_; its header has been checked.
    std::span<const std::byte> set_bytes(const BsetHeader& header) const {
        return node_.subspan(std::size_t{block_} * geometry_.block_bytes(),
                             kHeader + 8 * std::size_t{header.keys});
    }
    // First block in [from, end) that carries the node's seq; the end if none.
    std::uint32_t find_seq(std::uint32_t from) const {
        while (from < nblocks_ && !carries_seq(from)) ++from;
        return from;
    }

    Result<void> check_header(const BsetHeader& header) const;
    bool checksum_ok(const BsetHeader& header) const;
    Result<void> take_set(const BsetHeader& header);

    std::span<const std::byte> node_;
    std::uint64_t magic_;
    std::uint64_t seed_;
    const Geometry& geometry_;
    std::uint32_t nblocks_;
    std::uint32_t block_ = 0;
    NodeImage image_;
};

Result<void> NodeReader::check_header(const BsetHeader& header) const {
    if (header.version > 1) return fail(Errc::corrupt, "unsupported bset version");
    if (blocks_of(header) > nblocks_ - block_) return fail(Errc::corrupt, "bad btree header");
    if (header.magic != magic_) return fail(Errc::corrupt, "bad magic");
    return {};
}

bool NodeReader::checksum_ok(const BsetHeader& header) const {
    const std::uint64_t seed = header.version == 0 ? ~std::uint64_t{0} : seed_;
    return header.csum == crc64(set_bytes(header).subspan(kCsumSkip), seed);
}

Result<void> NodeReader::take_set(const BsetHeader& header) {
    if (block_ > 0 && header.keys == 0) return fail(Errc::corrupt, "empty set");
    Bset set{.block = block_, .blocks = blocks_of(header), .version = header.version, .keys = {}};
    TRY_OK(decode_keys(set_bytes(header).subspan(kHeader), set.keys));
    block_ += set.blocks;
    image_.sets.push_back(std::move(set));
    return {};
}

Result<NodeImage> NodeReader::read(bool tolerate_torn) {
    if (nblocks_ == 0) return fail(Errc::corrupt, "bad btree header");
    image_.seq = header_at(0).seq;
    if (image_.seq == 0) return fail(Errc::corrupt, "bad btree header");

    while (block_ < nblocks_ && carries_seq(block_)) {
        const BsetHeader header = header_at(block_);
        TRY_OK(check_header(header));
        if (!checksum_ok(header)) {
            const bool last = find_seq(block_ + blocks_of(header)) == nblocks_;
            if (!tolerate_torn || block_ == 0 || !last) return fail(Errc::corrupt, "bad checksum");
            image_.torn = true;
            // The rest of a torn set is whatever was there before: stop quietly at nonsense.
            static_cast<void>(decode_keys(set_bytes(header).subspan(kHeader), image_.torn_keys));
            image_.next_block = block_;
            return std::move(image_);
        }
        TRY_OK(take_set(header));
    }
    image_.next_block = block_;
    if (const std::uint32_t stray = find_seq(block_); stray < nblocks_) {
        block_ = stray;
        return fail(Errc::corrupt, "corrupted btree");
    }
    return std::move(image_);
}

}  // namespace

Result<NodeImage> decode_node(std::span<const std::byte> node, std::uint64_t set_magic,
                              std::uint64_t seed, const Geometry& geometry, bool tolerate_torn,
                              std::uint32_t* error_block) {
    CHECK(geometry.block_bytes() >= kSectorBytes);
    NodeReader reader(node, set_magic, seed, geometry);
    Result<NodeImage> image = reader.read(tolerate_torn);
    if (error_block != nullptr && !image) *error_block = reader.block();
    return image;
}

std::size_t bset_bytes(std::span<const Key> keys) {
    std::size_t words = 0;
    for (const Key& key : keys) words += key.words();
    return kHeader + 8 * words;
}

void encode_bset(std::span<const Key> keys, std::uint64_t node_seq, std::uint64_t set_magic,
                 std::uint64_t seed, std::span<std::byte> out) {
    const std::size_t bytes = bset_bytes(keys);
    CHECK(bytes <= out.size());
    CHECK(node_seq != 0);
    BsetHeader header;
    header.magic = set_magic ^ kBsetMagic;
    header.seq = node_seq;
    header.version = 1;
    header.keys = static_cast<std::uint32_t>((bytes - kHeader) / 8);

    std::byte* at = out.data() + kHeader;
    for (const Key& key : keys) at += encode_key(key, at);
    std::fill(at, out.data() + out.size(), std::byte{0});
    std::memcpy(out.data(), &header, kHeader);
    header.csum = crc64(out.subspan(kCsumSkip, bytes - kCsumSkip), seed);
    std::memcpy(out.data(), &header, kHeader);
}

}  // namespace uc::ondisk
