// The daemon's log: one line for each thing that happens, on standard output, errors on standard
// error. Where that is systemd's journal, each line begins with its priority, "<4>", which the
// journal takes off again (sd-daemon(3)); everywhere else it is just the line.
#pragma once

#include <cstdint>
#include <string>

namespace uc::admin {

// With the numbers of syslog(3).
enum class Severity : std::uint8_t {
    error = 3,    // the service does not start, or did not end well
    warning = 4,  // something happened to it from outside
    info = 6,     // the course of things
};

void log_line(Severity severity, const std::string& line);

}  // namespace uc::admin
