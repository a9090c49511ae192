// Journal entries (format section 4.2). The header repeats the roots of everything, each as a key
// in an 8-word field of which only the key's own words mean something.
#include "ondisk/jset.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ondisk/checksum.h"
#include "ondisk/magic.h"

namespace uc::ondisk {

namespace {

constexpr std::size_t kHeader = sizeof(JsetHeader);
constexpr std::size_t kCsumSkip = 8;

using KeyField = std::array<Le<std::uint64_t>, 8>;

Result<Key> decode_field(const KeyField& field) {
    std::span<const std::byte> bytes = std::as_bytes(std::span(field));
    return decode_key(bytes);
}

KeyField encode_field(const Key& key) {
    KeyField field{};
    encode_key(key, std::as_writable_bytes(std::span(field)).data());
    return field;
}

Result<Jset> decode_body(const JsetHeader& header, std::span<const std::byte> words) {
    Jset jset;
    jset.seq = header.seq;
    jset.last_seq = header.last_seq;
    jset.version = header.version;
    TRY(jset.uuid_bucket, decode_field(header.uuid_bucket));
    TRY(jset.btree_root, decode_field(header.btree_root));
    jset.btree_level = header.btree_level;
    std::copy(header.prio_bucket.begin(), header.prio_bucket.end(), jset.prio_bucket.begin());
    jset.keys.reserve(words.size() / kKeyMaxBytes);
    while (!words.empty()) {
        TRY(const Key key, decode_key(words));
        jset.keys.push_back(key);
    }
    return jset;
}

}  // namespace

Result<Jset> decode_jset(std::span<const std::byte> bytes, std::uint64_t set_magic) {
    if (bytes.size() < kHeader) return fail(Errc::not_found, "no journal entry");
    JsetHeader header;
    std::memcpy(&header, bytes.data(), kHeader);
    if (header.magic != (set_magic ^ kJsetMagic)) return fail(Errc::not_found, "no journal entry");

    const std::uint64_t size = kHeader + 8 * std::uint64_t{header.keys};
    if (size > kJsetMaxBytes) return fail(Errc::corrupt, "journal entry too large");
    if (size > bytes.size()) return fail(Errc::corrupt, "journal entry crosses end of bucket");
    bytes = bytes.first(size);
    if (header.csum != crc64(bytes.subspan(kCsumSkip))) {
        return fail(Errc::corrupt, "bad checksum of journal entry");
    }
    return decode_body(header, bytes.subspan(kHeader));
}

std::size_t jset_bytes(const Jset& jset) {
    std::size_t words = 0;
    for (const Key& key : jset.keys) words += key.words();
    return kHeader + 8 * words;
}

std::uint32_t jset_blocks(std::size_t key_words, const Geometry& geometry) {
    return geometry.blocks(kHeader + 8 * std::uint64_t{key_words});
}

void encode_jset(const Jset& jset, std::uint64_t set_magic, std::span<std::byte> out) {
    const std::size_t bytes = jset_bytes(jset);
    CHECK(bytes <= out.size());
    CHECK(bytes <= kJsetMaxBytes);
    JsetHeader header{};
    header.magic = set_magic ^ kJsetMagic;
    header.seq = jset.seq;
    header.version = jset.version;
    header.keys = static_cast<std::uint32_t>((bytes - kHeader) / 8);
    header.last_seq = jset.last_seq;
    header.uuid_bucket = encode_field(jset.uuid_bucket);
    header.btree_root = encode_field(jset.btree_root);
    header.btree_level = jset.btree_level;
    std::copy(jset.prio_bucket.begin(), jset.prio_bucket.end(), header.prio_bucket.begin());

    std::byte* at = out.data() + kHeader;
    for (const Key& key : jset.keys) at += encode_key(key, at);
    std::fill(at, out.data() + out.size(), std::byte{0});
    std::memcpy(out.data(), &header, kHeader);
    header.csum = crc64(out.subspan(kCsumSkip, bytes - kCsumSkip));
    std::memcpy(out.data(), &header, kHeader);
}

}  // namespace uc::ondisk
