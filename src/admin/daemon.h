// `ubcache serve`: a set in the foreground until SIGTERM, SIGINT or a request to stop.
#pragma once

#include "admin/metrics_server.h"
#include "admin/served_set.h"
#include "admin/sys_tree.h"

namespace uc::admin {

struct DaemonOptions {
    ServeOptions set;
    SysTreeOptions sys;
    MetricsOptions metrics;
};

// Returns the exit status.
int serve_command(const DaemonOptions& options);

}  // namespace uc::admin
