// The state of a running set as JSON (docs/control-protocol.md), and that JSON as text for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "admin/served_set.h"

namespace uc::admin {

nlohmann::json status_json(const ServedSet& served);

// Tolerates missing members: the daemon may be of another version.
std::string status_text(const nlohmann::json& status);

// One line when a volume comes into service: name, size, how to connect.
std::string volume_line(const ServedSet& served, const ServedVolume& volume);

}  // namespace uc::admin
