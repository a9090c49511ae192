// Whether a write goes to the cache alone, as dirty data (format section 7.4).
#pragma once

#include <cstdint>

#include "ondisk/superblock.h"

namespace uc::policy {

struct WritebackFacts {
    ondisk::CacheMode mode{};
    bool detaching = false;
    std::uint32_t in_use_percent = 0;
    std::uint32_t cutoff_writeback = 40;       // above it only synchronous and priority writes
    std::uint32_t cutoff_writeback_sync = 70;  // above it no write at all
    bool discard = false;
    bool synchronous = false;  // sync, flush or FUA
    bool priority = false;     // metadata or priority hint
    bool bypass = false;       // what the bypass decision said
    // The backing device rewrites whole stripes, and a stripe this write touches has dirty data.
    bool joins_dirty_stripe = false;
};

// True cancels a bypass.
bool want_writeback(const WritebackFacts& facts);

}  // namespace uc::policy
