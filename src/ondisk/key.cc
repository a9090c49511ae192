// Keys on disk: 2 + PTRS little-endian words. The marker bit 63 says nothing (the kernel accepts
// keys without it), so it is set on reading and on writing: equal keys then compare equal.
#include "ondisk/key.h"

#include <cstring>

#include "base/le.h"

namespace uc::ondisk {

namespace {

constexpr std::size_t kWord = 8;

std::uint64_t load_word(const std::byte* at) {
    Le<std::uint64_t> word;
    std::memcpy(&word, at, kWord);
    return word;
}

void store_word(std::byte* at, std::uint64_t value) {
    const Le<std::uint64_t> word = value;
    std::memcpy(at, &word, kWord);
}

}  // namespace

Result<Key> decode_key(std::span<const std::byte>& bytes) {
    if (bytes.size() < 2 * kWord) return fail(Errc::corrupt, "key runs over the end");
    const std::uint64_t high = load_word(bytes.data()) | Key::kMarker;
    const std::uint64_t low = load_word(bytes.data() + kWord);
    Key key = Key::from_words(high, low, 0);
    const std::size_t length = key.words() * kWord;
    if (bytes.size() < length) return fail(Errc::corrupt, "key runs over the end");
    if (key.ptrs() > 1) return fail(Errc::unsupported, "key with more than one pointer");
    if (key.has_ptr()) key.set_ptr(Ptr(load_word(bytes.data() + 2 * kWord)));
    bytes = bytes.subspan(length);
    return key;
}

std::size_t encode_key(const Key& key, std::byte* out) {
    store_word(out, key.high() | Key::kMarker);
    store_word(out + kWord, key.low());
    if (key.has_ptr()) store_word(out + 2 * kWord, key.ptr().raw());
    return key.words() * kWord;
}

}  // namespace uc::ondisk
