// The client's side of the control socket. Blocking.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "admin/outcome.h"

namespace uc::admin {

inline constexpr const char* kDefaultControlPath = "/run/ubcache/control.sock";
// $UBCACHE_CONTROL, else kDefaultControlPath.
std::string default_control_path();

class ControlClient {
public:
    // If nothing is at the default path, the one set that is served from /run/ubcache, if it is
    // one. The error says what to do if no daemon listens.
    static Outcome<ControlClient> connect(const std::string& path);
    ControlClient(ControlClient&& other) noexcept;
    ControlClient(const ControlClient&) = delete;
    ControlClient& operator=(const ControlClient&) = delete;
    ~ControlClient();

    using OnProgress = std::function<void(const nlohmann::json& progress)>;
    // The answer's "result", or its "error".
    Outcome<nlohmann::json> request(const nlohmann::json& request, const OnProgress& on_progress);

private:
    explicit ControlClient(int fd) : fd_(fd) {}
    Outcome<std::string> read_line();

    int fd_;
    std::string received_;
};

}  // namespace uc::admin
