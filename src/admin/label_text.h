// What a label may look like. Labels become names of files and of NBD exports, and are printed on
// terminals. (Disks may bring others along; those are shown in a plainer form.)
#pragma once

#include <string_view>

#include "admin/outcome.h"

namespace uc::admin {

// The error is the reason, e.g. "the label has a '/' in it; ...". An empty label is sound.
Outcome<> check_label(std::string_view label);

// Clients may be connected under the old names.
inline constexpr const char* kLabelNote =
    "label: it is stored; exports and files keep their present names until the next start";

}  // namespace uc::admin
