// Journal entries: the input is the rest of a journal bucket. An accepted entry lies inside it and
// encodes to one that decodes to the same.
#include "base/check.h"
#include "fuzz_bytes.h"
#include "ondisk/checksum.h"
#include "ondisk/jset.h"
#include "ondisk/magic.h"

namespace uc {
namespace {

void seal(fuzz::Bytes& bytes) {
    if (bytes.size() < sizeof(ondisk::JsetHeader)) return;
    const std::uint64_t size = 240 + 8 * std::uint64_t{fuzz::load<std::uint32_t>(bytes, 28)};
    if (size > bytes.size()) return;
    fuzz::store(bytes, 8, fuzz::kSetMagic ^ ondisk::kJsetMagic);
    fuzz::store(bytes, 0, ondisk::crc64(std::span(bytes).subspan(8, size - 8)));
}

void decode(std::span<const std::byte> bytes) {
    const auto jset = ondisk::decode_jset(bytes, fuzz::kSetMagic);
    if (!jset) return;
    const std::size_t size = ondisk::jset_bytes(*jset);
    CHECK(size <= bytes.size());
    CHECK(size <= ondisk::kJsetMaxBytes);

    fuzz::Bytes again(size);
    ondisk::encode_jset(*jset, fuzz::kSetMagic, again);
    const auto second = ondisk::decode_jset(again, fuzz::kSetMagic);
    CHECK(second);
    CHECK(second->seq == jset->seq);
    CHECK(second->last_seq == jset->last_seq);
    CHECK(second->version == jset->version);
    CHECK(second->uuid_bucket == jset->uuid_bucket);
    CHECK(second->btree_root == jset->btree_root);
    CHECK(second->btree_level == jset->btree_level);
    CHECK(second->prio_bucket == jset->prio_bucket);
    CHECK(second->keys == jset->keys);
}

}  // namespace
}  // namespace uc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace uc;
    fuzz::Bytes bytes = fuzz::resized(fuzz::input(data, size), size);
    decode(bytes);
    seal(bytes);
    decode(bytes);
    return 0;
}
