// Keys: any words decode to a key that encodes to the same words (marker set), or are refused;
// valid extents can be cut anywhere.
#include "base/check.h"
#include "fuzz_bytes.h"
#include "ondisk/key.h"
#include "ondisk/validate.h"

namespace uc {
namespace {

constexpr ondisk::Geometry kGeometry{
    .block_sectors = 1, .bucket_sectors = 128, .nbuckets = 100000, .first_bucket = 1};

void check_encoding(const ondisk::Key& key, std::span<const std::byte> words) {
    fuzz::Bytes expected(words.begin(), words.end());
    fuzz::store(expected, 0, fuzz::load<std::uint64_t>(expected, 0) | ondisk::Key::kMarker);
    fuzz::Bytes again(ondisk::kKeyMaxBytes);
    again.resize(ondisk::encode_key(key, again.data()));
    CHECK(again == expected);
}

void check_cutting(const ondisk::Key& key) {
    if (key.size() < 2) return;
    const std::uint64_t middle = key.start() + key.size() / 2;
    const ondisk::Key front = key.part(key.start(), middle);
    const ondisk::Key back = key.part(middle, key.end());
    CHECK(front.end() == back.start());
    CHECK(front.size() + back.size() == key.size());
    CHECK(ondisk::validate_extent_key(front, kGeometry));
    CHECK(ondisk::validate_extent_key(back, kGeometry));
}

}  // namespace
}  // namespace uc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace uc;
    std::span<const std::byte> rest = fuzz::input(data, size);
    while (!rest.empty()) {
        const std::span<const std::byte> before = rest;
        const auto key = ondisk::decode_key(rest);
        if (!key) {
            CHECK(rest.size() == before.size());
            break;
        }
        CHECK(before.size() - rest.size() == 8 * key->words());
        check_encoding(*key, before.first(8 * key->words()));
        static_cast<void>(ondisk::validate_node_key(*key, kGeometry));
        if (ondisk::validate_extent_key(*key, kGeometry)) check_cutting(*key);
    }
    return 0;
}
