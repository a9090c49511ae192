// Nodes: the input is a whole node. Every set of an accepted one lies inside it, and encodes to the
// bytes that it came from.
#include "base/check.h"
#include "fuzz_bytes.h"
#include "ondisk/bset.h"
#include "ondisk/checksum.h"
#include "ondisk/magic.h"

namespace uc {
namespace {

constexpr ondisk::Geometry kGeometry{.block_sectors = 1, .bucket_sectors = 128, .nbuckets = 1000};
constexpr std::uint64_t kSeed = 0x0000000001900007;

// Every set that the node's seq announces becomes one with the right magic and checksum.
void seal_sets(fuzz::Bytes& node) {
    if (node.size() < 512) return;
    const auto seq = fuzz::load<std::uint64_t>(node, 16);
    for (std::size_t at = 0; at + 512 <= node.size();) {
        const std::span<std::byte> rest = std::span(node).subspan(at);
        const std::uint64_t size = 32 + 8 * std::uint64_t{fuzz::load<std::uint32_t>(rest, 28)};
        if (fuzz::load<std::uint64_t>(rest, 16) != seq || size > rest.size()) return;
        fuzz::store(rest, 8, fuzz::kSetMagic ^ ondisk::kBsetMagic);
        const bool unseeded = fuzz::load<std::uint32_t>(rest, 24) == 0;
        fuzz::store(rest, 0, ondisk::crc64(rest.subspan(8, size - 8), unseeded ? ~0ull : kSeed));
        at += (size + 511) / 512 * 512;
    }
}

void check_set(std::span<const std::byte> node, const ondisk::Bset& set, std::uint64_t seq) {
    const std::size_t start = std::size_t{set.block} * 512;
    const std::size_t size = ondisk::bset_bytes(set.keys);
    CHECK(start + size <= node.size());
    CHECK((size + 511) / 512 == set.blocks);
    // A key without the marker bit, or a set of version 0, is written in today's form; decoding
    // that must give the same keys.
    fuzz::Bytes again(std::size_t{set.blocks} * 512);
    ondisk::encode_bset(set.keys, seq, fuzz::kSetMagic, kSeed, again);
    const auto decoded =
        ondisk::decode_node(again, fuzz::kSetMagic, kSeed, kGeometry, false, nullptr);
    // Chance may have put the node's seq on a block boundary inside the set: not an error there.
    CHECK(decoded);
    CHECK(decoded->sets.size() == 1);
    CHECK(decoded->sets[0].keys == set.keys);
}

void decode(std::span<const std::byte> node, bool tolerate_torn) {
    std::uint32_t block = 0;
    const auto image =
        ondisk::decode_node(node, fuzz::kSetMagic, kSeed, kGeometry, tolerate_torn, &block);
    if (!image) {
        CHECK(block == 0 || std::size_t{block} * 512 < node.size());
        return;
    }
    CHECK(tolerate_torn || !image->torn);
    CHECK(std::size_t{image->next_block} * 512 <= node.size());
    for (const ondisk::Bset& set : image->sets) check_set(node, set, image->seq);
}

}  // namespace
}  // namespace uc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace uc;
    fuzz::Bytes node = fuzz::resized(fuzz::input(data, size), size);
    decode(node, false);
    decode(node, true);
    seal_sets(node);
    decode(node, false);
    decode(node, true);
    return 0;
}
