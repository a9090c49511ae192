// `ubcache assemble`: what udev calls for each block device that appears. Notes the members of sets
// that are ubcache's and has the service of a set started once its cache device is there; the
// daemon then takes the backing devices, in whatever order they come.
#pragma once

#include <string>
#include <vector>

#include "admin/set_directory.h"

namespace uc::admin {

struct AssembleOptions {
    std::vector<std::string> devices;
    // Only say, in udev's KEY=VALUE form, what a device is; exit status 1 if it is none of ours.
    bool describe = false;
    // Not empty: the time to wait for the cache of this set is over.
    std::string alone;
    std::string start = "auto";  // "yes", "no"; "auto": if systemd runs
    std::string run_directory = kRunDirectory;
    std::string config_directory = kConfigDirectory;
};

// Returns the exit status.
int assemble_command(const AssembleOptions& options);

}  // namespace uc::admin
