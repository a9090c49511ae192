// An error in words, for logs and reports.
#pragma once

#include <string>

#include "base/result.h"

namespace uc {

// "write failed: No space left on device"
std::string error_text(const Error& error);

}  // namespace uc
