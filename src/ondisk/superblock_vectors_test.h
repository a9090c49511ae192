// The synthetic superblocks of the format's test vectors (section 12).
#pragma once

#include <array>
#include <cstdint>

#include "ondisk/superblock.h"
#include "ondisk/vectors_test.h"

namespace uc::ondisk::test {

inline Superblock vector_cache() {
    Superblock sb;
    sb.version = 3;
    sb.uuid = counting_uuid(0x10);
    sb.set_uuid = kSetUuid;
    sb.label = {'c', 'a', 'c', 'h', 'e'};
    sb.flags = 1;
    sb.seq = 5;
    sb.nbuckets_or_offset = 4096;
    sb.block_size = 8;
    sb.bucket_size_raw = 1024;
    sb.nr_in_set = 1;
    sb.last_mount = 1700000000;
    sb.first_bucket = 1;
    sb.keys = 32;
    for (std::uint16_t i = 0; i < 32; ++i) sb.d[i] = i + 1u;
    return sb;
}

inline Superblock vector_backing() {
    Superblock sb;
    sb.version = 1;
    sb.uuid = counting_uuid(0x30);
    sb.set_uuid = kSetUuid;
    sb.flags = 0x4000000000000001;
    sb.block_size = 8;
    sb.bucket_size_raw = 1024;
    return sb;
}

// Large enough for vector_cache().
inline constexpr std::uint64_t kDeviceSectors = 4096 * 1024;

inline Result<Superblock> decode(const Superblock& sb) {
    return decode_superblock(encode_superblock(sb), kDeviceSectors, 1);
}

}  // namespace uc::ondisk::test
