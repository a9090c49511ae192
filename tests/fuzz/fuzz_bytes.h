// What the fuzz targets share. An input is the bytes of one structure. A random change of such
// bytes nearly always breaks the checksum and shows nothing more, so each target decodes its input
// twice: as it is, and sealed, with the magic and the checksum made right.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/le.h"

namespace uc::fuzz {

using Bytes = std::vector<std::byte>;

inline constexpr std::uint64_t kSetMagic = 0x0123456789abcdef;

inline std::span<const std::byte> input(const std::uint8_t* data, std::size_t size) {
    return std::as_bytes(std::span(data, size));
}

// Exactly `size` bytes: cut, or filled up with zeroes.
inline Bytes resized(std::span<const std::byte> bytes, std::size_t size) {
    Bytes out(bytes.begin(), bytes.end());
    out.resize(size);
    return out;
}

template <class T>
T load(std::span<const std::byte> bytes, std::size_t at) {
    Le<T> value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

template <class T>
void store(std::span<std::byte> bytes, std::size_t at, T value) {
    const Le<T> le = value;
    std::memcpy(bytes.data() + at, &le, sizeof le);
}

}  // namespace uc::fuzz
