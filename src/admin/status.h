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

// What the volumes that live on the cache device alone hold; no flush writes that anywhere.
std::uint64_t flash_only_bytes(const ServedSet& served);
// One line if those volumes were promised more than the cache device can hold, else empty.
std::string overcommit_note(const ServedSet& served);

}  // namespace uc::admin
