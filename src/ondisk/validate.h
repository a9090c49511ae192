// Classes of keys (format section 2.6). Pure: needs only the geometry. Staleness is the allocator's
// knowledge and is judged elsewhere.
#pragma once

#include "base/result.h"
#include "ondisk/geometry.h"
#include "ondisk/key.h"

namespace uc::ondisk {

// Errc::corrupt with the reason if the key proves corruption. SIZE 0 is legal here (drop it).
Result<void> validate_extent_key(const Key& key, const Geometry& geometry);
// For keys of interior nodes, the root key and the uuid-table key. Keys at ZERO are records of
// freed nodes and obey the same rules.
Result<void> validate_node_key(const Key& key, const Geometry& geometry);

}  // namespace uc::ondisk
