// Magic numbers of the metadata structures (format section 1.3); each is stored xor-ed with the
// set's own magic, Uuid::magic() of the set uuid.
#pragma once

#include <cstdint>

namespace uc::ondisk {

inline constexpr std::uint64_t kJsetMagic = 0x245235C1A3625032;
inline constexpr std::uint64_t kPrioMagic = 0x6750E15F87337F91;
inline constexpr std::uint64_t kBsetMagic = 0x90135C78B99E07F5;

}  // namespace uc::ondisk
