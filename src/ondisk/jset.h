// Journal entry (format section 4.2).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/le.h"
#include "base/result.h"
#include "base/units.h"
#include "ondisk/geometry.h"
#include "ondisk/key.h"

namespace uc::ondisk {

struct JsetHeader {
    Le<std::uint64_t> csum;
    Le<std::uint64_t> magic;
    Le<std::uint64_t> seq;
    Le<std::uint32_t> version;
    Le<std::uint32_t> keys;  // words
    Le<std::uint64_t> last_seq;
    std::array<Le<std::uint64_t>, 8> uuid_bucket;
    std::array<Le<std::uint64_t>, 8> btree_root;
    Le<std::uint16_t> btree_level;
    std::array<unsigned char, 6> pad;
    std::array<Le<std::uint64_t>, 8> prio_bucket;
};
static_assert(sizeof(JsetHeader) == 240 && alignof(JsetHeader) == 1);
static_assert(offsetof(JsetHeader, seq) == 16 && offsetof(JsetHeader, version) == 24);
static_assert(offsetof(JsetHeader, keys) == 28 && offsetof(JsetHeader, last_seq) == 32);
static_assert(offsetof(JsetHeader, uuid_bucket) == 40 && offsetof(JsetHeader, btree_root) == 104);
static_assert(offsetof(JsetHeader, btree_level) == 168 && offsetof(JsetHeader, prio_bucket) == 176);
static_assert(std::is_trivially_copyable_v<JsetHeader>);

inline constexpr std::size_t kJsetMaxBytes = 32768;

// The decoded form.
struct Jset {
    JournalSeq seq = 0;
    JournalSeq last_seq = 0;
    std::uint32_t version = 1;
    Key uuid_bucket;
    Key btree_root;
    std::uint16_t btree_level = 0;
    std::array<std::uint64_t, 8> prio_bucket{};
    std::vector<Key> keys;
};

// The entry at the start of `bytes` (the rest of its journal bucket). Errc::not_found: no entry of
// this set starts here (wrong magic); Errc::corrupt: size, checksum or keys are wrong.
Result<Jset> decode_jset(std::span<const std::byte> bytes, std::uint64_t set_magic);
std::size_t jset_bytes(const Jset& jset);
// Blocks taken by an entry with `key_words` words.
std::uint32_t jset_blocks(std::size_t key_words, const Geometry& geometry);
// Serialises into `out` (at least jset_bytes), padding with zeroes to its end.
void encode_jset(const Jset& jset, std::uint64_t set_magic, std::span<std::byte> out);

}  // namespace uc::ondisk
