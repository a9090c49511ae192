#include "policy/bypass.h"

#include "base/units.h"

namespace uc::policy {

BypassReason bypass_by_rule(const BypassFacts& facts) {
    // The order among the first three decides only which reason is counted; a discard is never
    // cached whatever the state of the set, so it is counted as that.
    if (facts.discard) return BypassReason::discard;
    if (facts.detaching) return BypassReason::detaching;
    if (facts.in_use_percent > kFullPercent) return BypassReason::full;
    if (facts.mode == ondisk::CacheMode::none) return BypassReason::mode;
    if (facts.mode == ondisk::CacheMode::writearound && facts.write) return BypassReason::mode;
    if (facts.start % facts.block_sectors != 0) return BypassReason::unaligned;
    if (facts.sectors % facts.block_sectors != 0) return BypassReason::unaligned;
    return BypassReason::none;
}

bool needs_run_length(const BypassFacts& facts) {
    return facts.sequential_cutoff_bytes != 0 || facts.congestion_limit_sectors != 0;
}

BypassReason bypass_by_run(const BypassFacts& facts) {
    if (facts.sequential_cutoff_bytes != 0 &&
        facts.run_sectors >= facts.sequential_cutoff_bytes / kSectorBytes) {
        return BypassReason::sequential;
    }
    if (facts.congestion_limit_sectors != 0 &&
        facts.run_sectors >= facts.congestion_limit_sectors) {
        return BypassReason::congested;
    }
    return BypassReason::none;
}

}  // namespace uc::policy
