// Priority sets (format section 3.4). The table is large (one entry per bucket), so it is viewed
// and filled in place rather than copied. The checksum covers unused entries too.
#include "ondisk/prio_set.h"

#include <cstring>

#include "base/check.h"
#include "ondisk/checksum.h"
#include "ondisk/magic.h"

namespace uc::ondisk {

namespace {

constexpr std::size_t kHeader = sizeof(PrioHeader);
constexpr std::size_t kCsumSkip = 8;

}  // namespace

Result<PrioSetView> decode_prio_set(std::span<const std::byte> bytes, std::uint64_t set_magic,
                                    const Geometry& geometry) {
    CHECK(bytes.size() >= geometry.metadata_bytes());
    bytes = bytes.first(geometry.metadata_bytes());
    PrioHeader header;
    std::memcpy(&header, bytes.data(), kHeader);
    if (header.csum != crc64(bytes.subspan(kCsumSkip))) {
        return fail(Errc::corrupt, "bad csum reading priorities");
    }
    if (header.magic != (set_magic ^ kPrioMagic)) {
        return fail(Errc::corrupt, "bad magic reading priorities");
    }
    return PrioSetView{
        .seq = header.seq,
        .next_bucket = header.next_bucket,
        .entries = {reinterpret_cast<const PrioEntry*>(bytes.data() + kHeader),
                    geometry.prios_per_bucket()},
    };
}

void seal_prio_set(std::span<std::byte> bytes, std::uint64_t seq, std::uint64_t next_bucket,
                   std::uint64_t set_magic) {
    CHECK(bytes.size() > kHeader);
    PrioHeader header;
    header.magic = set_magic ^ kPrioMagic;
    header.seq = seq;
    header.next_bucket = next_bucket;
    std::memcpy(bytes.data(), &header, kHeader);
    header.csum = crc64(bytes.subspan(kCsumSkip));
    std::memcpy(bytes.data(), &header, kHeader);
}

std::span<PrioEntry> prio_entries(std::span<std::byte> bytes, const Geometry& geometry) {
    CHECK(bytes.size() >= geometry.metadata_bytes());
    return {reinterpret_cast<PrioEntry*>(bytes.data() + kHeader), geometry.prios_per_bucket()};
}

}  // namespace uc::ondisk
