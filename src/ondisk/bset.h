// One set of keys in a b-tree node (format section 5.2), the unit of appending to a node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/le.h"
#include "base/result.h"
#include "ondisk/geometry.h"
#include "ondisk/key.h"

namespace uc::ondisk {

struct BsetHeader {
    Le<std::uint64_t> csum;
    Le<std::uint64_t> magic;
    Le<std::uint64_t> seq;
    Le<std::uint32_t> version;
    Le<std::uint32_t> keys;  // words, not keys
};
static_assert(sizeof(BsetHeader) == 32 && alignof(BsetHeader) == 1);
static_assert(offsetof(BsetHeader, seq) == 16 && offsetof(BsetHeader, version) == 24);
static_assert(offsetof(BsetHeader, keys) == 28);
static_assert(std::is_trivially_copyable_v<BsetHeader>);

// One decoded set of a node.
struct Bset {
    std::uint32_t block = 0;   // where it starts, in blocks from the node's start
    std::uint32_t blocks = 0;  // how many it takes
    std::uint32_t version = 1;
    std::vector<Key> keys;  // in disk order; SIZE 0 keys included
};

// What a node's bytes hold (section 5.3).
struct NodeImage {
    std::uint64_t seq = 0;
    std::vector<Bset> sets;
    std::uint32_t next_block = 0;  // where the next set may be appended
    // The last set failed its checksum and was left out (a torn append, weakness 11.1). The node
    // must be rewritten, not appended to. `torn_keys` are the keys that its intact header claims,
    // as far as they decode.
    bool torn = false;
    std::vector<Key> torn_keys;
};

// Decodes all sets. `node` is the whole node (key SIZE sectors); `seed` the raw pointer word of the
// key that points at it. `tolerate_torn`: a bad checksum in the last set that is not the first is
// reported in the result instead of failing; a bad one followed by further sets of this node fails
// always. Errors: Errc::corrupt, what = reason as in 5.3. `error_block` receives the block.
// Keys are decoded but not validated against the geometry: the caller knows the level.
Result<NodeImage> decode_node(std::span<const std::byte> node, std::uint64_t set_magic,
                              std::uint64_t seed, const Geometry& geometry, bool tolerate_torn,
                              std::uint32_t* error_block);

// Bytes that a set with these keys takes (header included), before rounding to blocks.
std::size_t bset_bytes(std::span<const Key> keys);
// Serialises a set (version 1) into `out`, which holds at least bset_bytes(keys) rounded up to 512;
// pads to the end of `out` with zeroes.
void encode_bset(std::span<const Key> keys, std::uint64_t node_seq, std::uint64_t set_magic,
                 std::uint64_t seed, std::span<std::byte> out);

}  // namespace uc::ondisk
