// `ubcache serve`: a set in the foreground until SIGTERM, SIGINT or a request to stop.
#pragma once

#include "admin/served_set.h"

namespace uc::admin {

// Returns the exit status.
int serve_command(const ServeOptions& options);

}  // namespace uc::admin
