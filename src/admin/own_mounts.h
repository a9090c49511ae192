// The daemon must not open a file of a file system that it serves itself: it would wait for its own
// answer, and everybody who uses its volumes with it.
#pragma once

#include <string>
#include <vector>

namespace uc::admin {

// Opening `path` would lead to or below one of `directories`, which are absolute and without links.
// Nothing below them is touched to find out.
bool leads_into(const std::string& path, const std::vector<std::string>& directories);

}  // namespace uc::admin
