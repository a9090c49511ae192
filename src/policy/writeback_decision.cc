#include "policy/writeback_decision.h"

namespace uc::policy {

bool want_writeback(const WritebackFacts& facts) {
    if (facts.mode != ondisk::CacheMode::writeback) return false;
    if (facts.detaching) return false;
    if (facts.in_use_percent > facts.cutoff_writeback_sync) return false;
    if (facts.discard) return false;
    if (facts.joins_dirty_stripe) return true;
    if (facts.bypass) return false;
    // An fsync is what users wait for, so it may use space that background writes may not.
    if (facts.synchronous || facts.priority) return true;
    return facts.in_use_percent <= facts.cutoff_writeback;
}

}  // namespace uc::policy
