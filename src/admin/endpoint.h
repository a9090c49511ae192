// Where clients connect and who may, as written on the command line.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "admin/outcome.h"

namespace uc::admin {

struct Endpoint {
    std::string path;  // not empty: a unix socket
    std::string host;
    std::uint16_t port = 0;
};

// "unix:PATH", an absolute path, "HOST:PORT" or "PORT".
// `option` is for the error.
Outcome<Endpoint> parse_endpoint(const std::string& text, const char* option = "--nbd");

// A group by its name or number.
Outcome<gid_t> find_group(const std::string& text);

// The directory that `path` lies in is there; the error names it. Making missing ones would hide a
// mistyped path.
Outcome<> check_parent(const std::string& path);

}  // namespace uc::admin
