// Settings that outlive the daemon: a TOML file with attributes of the set and of its volumes.
//
//   [set]            journal_delay_ms = 100
//   [volume]         sequential_cutoff = "4M"        (of all volumes)
//   [volumes.home]   writeback_percent = 20          (of one, by name or uuid)
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "admin/outcome.h"
#include "admin/served_set.h"

namespace uc::admin {

inline constexpr const char* kSettingsDirectory = "/etc/ubcache";

// The errors name file and line.
Outcome<std::vector<SetOption>> read_settings(const std::string& path);
// Those that there are of /etc/ubcache/settings.toml (the host's) and /etc/ubcache/SET-UUID.toml,
// in the order in which they are to be applied.
std::vector<std::string> default_settings_files(const ServeOptions& options);

// A file with every setting, commented out, with its default and what it means.
std::string default_settings_text();
// What differs from the defaults, of an answer to "get". The file for it is `settings_path()`.
std::string settings_text(const nlohmann::json& attributes);
std::string settings_path(const std::string& set_uuid);
// All of it or, after an error, what was there before.
Outcome<> write_settings(const std::string& path, const std::string& text);

}  // namespace uc::admin
