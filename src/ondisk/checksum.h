// CRC-64 ECMA-182, not reflected (format section 0.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uc::ondisk {

// Register starts as `seed`; final xor with all ones. Seed all ones is the "standard use"; node
// sets of version 1 use the pointer word of the key that points at the node.
std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t seed = ~std::uint64_t{0});

}  // namespace uc::ondisk
