// The sub-commands that talk to a running daemon. Each returns the exit status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace uc::admin {

struct ClientOptions {
    std::string control;  // path of the daemon's socket
    bool json = false;    // print the result as JSON
};

int status_command(const ClientOptions& options);
// `assignments`: KEY=VALUE. `volume` empty: all volumes.
// Prints attributes by name, or all. A single value stands alone, for scripts.
int get_command(const ClientOptions& options, const std::vector<std::string>& names,
                const std::string& volume);
int set_command(const ClientOptions& options, const std::vector<std::string>& assignments,
                const std::string& volume);
int attach_command(const ClientOptions& options, const std::string& device);
int detach_command(const ClientOptions& options, const std::string& volume);
// `volume` empty: all volumes.
int flush_command(const ClientOptions& options, const std::string& volume);
int stop_command(const ClientOptions& options, bool flush);
int create_volume_command(const ClientOptions& options, const std::string& size,
                          const std::string& label);
int gc_command(const ClientOptions& options);

}  // namespace uc::admin
