// `ubcache config`: the settings file with all defaults, and one with what a daemon has now.
#pragma once

#include <string>

#include "admin/client_commands.h"

namespace uc::admin {

// Prints to standard output.
int config_defaults_command();
// Saves what the daemon has. `path` empty: /etc/ubcache/SET-UUID.toml; "-": standard output.
int config_save_command(const ClientOptions& options, const std::string& path);

}  // namespace uc::admin
