// Whether a request goes through the cache, and if not, why not (format section 7.2).
//
// A bypassed write invalidates what the cache has; a bypassed read still uses hits but fills
// nothing.
#pragma once

#include <cstdint>

#include "ondisk/superblock.h"

namespace uc::policy {

enum class BypassReason : std::uint8_t {
    none,        // not bypassed
    mode,        // cache mode none; writes in writearound
    sequential,  // the run reached the sequential cutoff
    congested,   // the cache is slow and the run long enough
    unaligned,   // start or length is not a multiple of the cache's block size
    full,        // in_use above 95 per cent
    detaching,   // the volume is leaving its set
    discard,     // discards are never cached
};

struct BypassFacts {
    bool write = false;  // a discard is a write, too
    bool discard = false;
    ondisk::CacheMode mode{};
    bool detaching = false;
    std::uint32_t in_use_percent = 0;
    std::uint64_t start = 0;  // sectors, on the backing device
    std::uint64_t sectors = 0;
    std::uint32_t block_sectors = 1;
    std::uint64_t sequential_cutoff_bytes = 0;   // 0 disables
    std::uint32_t congestion_limit_sectors = 0;  // 0 = not congested
    std::uint64_t run_sectors = 0;               // from SequentialRuns::observe
};

inline constexpr std::uint32_t kFullPercent = 95;

// The first steps, which need no run length. A request they bypass is not shown to SequentialRuns.
BypassReason bypass_by_rule(const BypassFacts& facts);
// True if the run length matters at all. If not, it need not be looked up.
bool needs_run_length(const BypassFacts& facts);
// The last steps, with run_sectors filled in.
BypassReason bypass_by_run(const BypassFacts& facts);

}  // namespace uc::policy
