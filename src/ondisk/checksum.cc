// ISA-L's crc64_ecma_norm() is the polynomial and bit order of the format (0.1), but inverts both
// the seed that it takes and the register that it returns. So an initial register value goes in
// inverted, and the final xor with all ones is already done.
#include "ondisk/checksum.h"

#include <isa-l/crc64.h>

namespace uc::ondisk {

std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t seed) {
    return crc64_ecma_norm(~seed, reinterpret_cast<const unsigned char*>(bytes.data()),
                           bytes.size());
}

}  // namespace uc::ondisk
