// The request "get": attributes by name (docs/control-protocol.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "admin/outcome.h"
#include "admin/served_set.h"

namespace uc::admin {

// Of the volume with that name, or else of set, cache device and all volumes. No names: all that
// can be read.
Outcome<nlohmann::json> get_attributes(const ServedSet& served,
                                       const std::vector<std::string>& names,
                                       const ServedVolume* volume);

}  // namespace uc::admin
