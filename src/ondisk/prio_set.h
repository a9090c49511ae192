// Priority table: one structure per priority bucket (format section 3.4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/le.h"
#include "base/result.h"
#include "base/units.h"
#include "ondisk/geometry.h"

namespace uc::ondisk {

struct PrioEntry {
    Le<std::uint16_t> prio;
    std::uint8_t gen;
};
static_assert(sizeof(PrioEntry) == 3 && alignof(PrioEntry) == 1);
static_assert(offsetof(PrioEntry, gen) == 2);
static_assert(std::is_trivially_copyable_v<PrioEntry>);

struct PrioHeader {
    Le<std::uint64_t> csum;
    Le<std::uint64_t> magic;
    Le<std::uint64_t> seq;
    Le<std::uint32_t> version;
    Le<std::uint32_t> pad;
    Le<std::uint64_t> next_bucket;
};
static_assert(sizeof(PrioHeader) == 40 && alignof(PrioHeader) == 1);
static_assert(offsetof(PrioHeader, seq) == 16 && offsetof(PrioHeader, version) == 24);
static_assert(offsetof(PrioHeader, next_bucket) == 32);
static_assert(std::is_trivially_copyable_v<PrioHeader>);

inline constexpr std::uint16_t kPrioMetadata = 65535;
inline constexpr std::uint16_t kPrioInitial = 32768;

// A checked view of one priority bucket's bytes (geometry.metadata_bytes() long).
struct PrioSetView {
    std::uint64_t seq = 0;
    std::uint64_t next_bucket = 0;
    std::span<const PrioEntry> entries;  // geometry.prios_per_bucket() of them, into `bytes`
};
// Errc::corrupt: "bad csum reading priorities", "bad magic reading priorities".
Result<PrioSetView> decode_prio_set(std::span<const std::byte> bytes, std::uint64_t set_magic,
                                    const Geometry& geometry);
// Fills in the header and the checksum; the caller has put the entries at byte 40 of `bytes`.
void seal_prio_set(std::span<std::byte> bytes, std::uint64_t seq, std::uint64_t next_bucket,
                   std::uint64_t set_magic);
// The entries of `bytes`, for filling in.
std::span<PrioEntry> prio_entries(std::span<std::byte> bytes, const Geometry& geometry);

}  // namespace uc::ondisk
