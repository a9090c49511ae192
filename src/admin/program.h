// Other programs, run to their end.
#pragma once

#include <string>
#include <vector>

#include "admin/outcome.h"

namespace uc::admin {

// Exit status 0 is success; else the error says which program failed and how. Found by $PATH, or in
// the usual directories where there is none, as under udev.
Outcome<> run_program(const std::vector<std::string>& words);

}  // namespace uc::admin
