// `ubcache abandon`: goes on without dirty data that cannot be had any more.
#pragma once

#include <string>

#include "admin/client_commands.h"

namespace uc::admin {

struct AbandonOptions {
    std::string uuid;      // of the backing device; with a daemon also the name of its volume
    bool discard = false;  // else only the list is written
    std::string list;      // file for the list; "-": standard output; empty: a name with the uuid
    std::string backing;   // no daemon runs, the cache is lost: the device itself
};

// Returns the exit status. The list of what is lost is on disk before anything is given up.
int abandon_command(const ClientOptions& client, const AbandonOptions& options);

}  // namespace uc::admin
