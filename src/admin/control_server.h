// The control socket of the daemon: lines in, lines out (docs/control-protocol.md). This part knows
// sockets and lines; what a request means is the handler's business.
#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "async/sync.h"
#include "async/task.h"
#include "base/result.h"
#include "frontend/lasting_listener.h"
#include "io/uring_reactor.h"

namespace uc::admin {

// Where a handler sends lines to, before the last one that it returns.
class ControlReply {
public:
    virtual ~ControlReply() = default;
    // Without newline. An error means that the client is gone; the handler goes on regardless.
    virtual Task<Result<void>> send(std::string line) = 0;
};

class ControlHandler {
public:
    virtual ~ControlHandler() = default;
    // Returns the answer: one line without newline.
    virtual Task<std::string> handle(std::string request, ControlReply& reply) = 0;
    // For requests that never reach handle().
    virtual std::string refusal(const char* reason) = 0;
};

class ControlServer {
public:
    static constexpr std::size_t kMaxLine = 64 << 10;
    static constexpr std::size_t kMaxConnections = 16;

    using Log = frontend::LastingListener::Log;

    // Errors as in NbdListener::on_path(). All arguments outlive the server. `log` gets lines on
    // what happens to it later.
    static Result<std::unique_ptr<ControlServer>> listen(io::UringReactor& reactor,
                                                         async::Executor& executor,
                                                         const std::string& path,
                                                         std::optional<gid_t> group,
                                                         ControlHandler& handler, Log log);
    // Only before serve() or after it has ended.
    ~ControlServer();
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;

    // Serves until stop(); returns when the last connection has ended.
    Task<void> serve();
    // No new requests. Those being handled are answered; a client that does not take its answer is
    // cut off after two seconds.
    void stop();

private:
    struct Connection;
    ControlServer(io::UringReactor& reactor, async::Executor& executor,
                  frontend::NbdListener listener, ControlHandler& handler, Log log);
    Task<void> converse(Connection& connection);
    Task<Result<std::string>> read_line(Connection& connection);
    Task<void> drain();
    void shut_connections(int how);

    io::UringReactor& reactor_;
    frontend::LastingListener listener_;
    ControlHandler& handler_;
    std::list<Connection> connections_;
    async::TaskGroup running_;
    async::Event ended_;
    bool stopping_ = false;
};

}  // namespace uc::admin
