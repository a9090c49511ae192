// The synthetic set of the format's test vectors (section 12): sets 20 21 ... 2f, two keys, a root.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/le.h"
#include "ondisk/key.h"
#include "ondisk/uuid.h"

namespace uc::ondisk::test {

// Sixteen consecutive bytes.
inline Uuid counting_uuid(std::uint8_t first) {
    Uuid uuid;
    for (auto& byte : uuid.bytes) byte = first++;
    return uuid;
}

inline const Uuid kSetUuid = counting_uuid(0x20);
inline const std::uint64_t kSetMagic = kSetUuid.magic();

inline constexpr Key kDirtyExtent = Key::extent(0, 144, 128, Ptr::make(40968, Gen(3)), true);
inline constexpr Key kInvalidation = Key::invalidation(1, 2048, 64);
inline constexpr Ptr kRootPtr = Ptr::make(102400, Gen(7));
inline constexpr Key kRoot = Key::pointer(kPosMax, 512, kRootPtr);
inline constexpr Key kUuidKey = Key::pointer(kPosZero, 1024, Ptr::make(51200, Gen(2)));

inline std::vector<std::byte> bytes_of(std::initializer_list<std::uint64_t> words) {
    std::vector<std::byte> bytes(words.size() * 8);
    std::byte* at = bytes.data();
    for (const std::uint64_t word : words) {
        const Le<std::uint64_t> le = word;
        std::memcpy(at, &le, 8);
        at += 8;
    }
    return bytes;
}

template <std::unsigned_integral T>
T load(std::span<const std::byte> bytes, std::size_t at) {
    Le<T> value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

template <std::unsigned_integral T>
void store(std::span<std::byte> bytes, std::size_t at, T value) {
    const Le<T> le = value;
    std::memcpy(bytes.data() + at, &le, sizeof le);
}

}  // namespace uc::ondisk::test
