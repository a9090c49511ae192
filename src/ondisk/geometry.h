// Quantities derived from the bucket size for 4 KiB pages (format sections 1.8 and 3.3).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace uc::ondisk {

struct Geometry {
    std::uint32_t block_sectors = 1;
    std::uint32_t bucket_sectors = 1024;
    std::uint64_t nbuckets = 0;
    std::uint32_t first_bucket = 1;
    std::uint32_t njournal = 0;  // journal buckets are [first_bucket, first_bucket + njournal)

    constexpr std::uint32_t metadata_sectors() const {
        return std::min<std::uint32_t>(bucket_sectors, 8192);
    }
    constexpr std::uint32_t metadata_bytes() const { return metadata_sectors() * 512; }
    constexpr std::uint32_t node_sectors() const {
        const std::uint32_t pages = metadata_sectors() / 8;
        return (pages <= 64 ? pages : std::max<std::uint32_t>(pages / 4, 64)) * 8;
    }
    constexpr std::uint32_t uuid_entries() const { return metadata_bytes() / 128; }
    constexpr std::uint32_t prios_per_bucket() const { return (metadata_bytes() - 40) / 3; }
    constexpr std::uint32_t prio_buckets() const {
        return static_cast<std::uint32_t>(div_ceil<std::uint64_t>(nbuckets, prios_per_bucket()));
    }
    constexpr std::uint32_t block_bytes() const { return block_sectors * 512; }
    constexpr std::uint64_t bucket_start(BucketIndex bucket) const {
        return std::uint64_t{bucket} * bucket_sectors;
    }
    constexpr std::uint64_t bucket_of(std::uint64_t sector) const {
        return sector / bucket_sectors;
    }
    // Blocks taken by `bytes`.
    constexpr std::uint32_t blocks(std::uint64_t bytes) const {
        return static_cast<std::uint32_t>(div_ceil<std::uint64_t>(bytes, block_bytes()));
    }
    static constexpr std::uint32_t first_bucket_for(std::uint32_t bucket_sectors) {
        return 23 / bucket_sectors + 1;
    }
    static constexpr std::uint32_t journal_buckets_for(std::uint64_t nbuckets) {
        return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(nbuckets >> 7, 2, 256));
    }
};

}  // namespace uc::ondisk
