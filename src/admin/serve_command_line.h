// The words of `ubcache serve`.
#pragma once

#include <string>
#include <vector>

#include "admin/daemon.h"

namespace CLI {
class App;
}

namespace uc::admin {

// Where the parsed words live; must outlive the parser.
struct ServeWords {
    DaemonOptions daemon;
    std::string control;  // path of the socket; to be set to its default before
    std::string export_kind;
    std::string group;
    std::string set;
    std::vector<std::string> configs;
    std::vector<std::string> set_options;
    bool no_sys = false;
    bool keep = false;
    char* program_name = nullptr;  // as ps and the service manager see it
};

// Adds the command to `app`. When it is chosen it runs, and `status` is its exit status.
void add_serve(CLI::App& app, ServeWords& words, int& status);

}  // namespace uc::admin
