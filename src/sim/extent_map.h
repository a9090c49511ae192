// Extents of one device with override semantics (format section 5.5): what is inserted later wins,
// for every sector that it covers, usable or not.
#pragma once

#include <cstdint>
#include <map>

#include "ondisk/key.h"

namespace uc::sim {

class ExtentMap {
public:
    // `key` has SIZE > 0.
    void insert(const ondisk::Key& key);
    // By start; disjoint.
    const std::map<std::uint64_t, ondisk::Key>& extents() const { return by_start_; }

private:
    std::map<std::uint64_t, ondisk::Key> by_start_;
};

}  // namespace uc::sim
