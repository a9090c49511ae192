// The daemon's part of `ubcache abandon`: what is lost, and giving it up.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "admin/control_server.h"
#include "admin/served_set.h"

namespace uc::admin {

// Sends the ranges of a device that only the cache has, as progress lines; the result tells their
// sum and whether the list is complete. Changes nothing.
Task<Outcome<nlohmann::json>> list_dirty(ServedSet& served, std::string uuid, ControlReply& reply);

// DISCARDS DIRTY DATA: of a volume whose cache is gone, or of a backing device that is not in
// service.
Task<Outcome<nlohmann::json>> abandon(ServedSet& served, std::string uuid);

}  // namespace uc::admin
