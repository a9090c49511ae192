// Answers GET /metrics over HTTP/1.1, one request per connection, and nothing else.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "admin/endpoint.h"
#include "admin/metrics.h"
#include "admin/outcome.h"
#include "async/sync.h"
#include "async/task.h"
#include "frontend/nbd_listener.h"
#include "io/uring_reactor.h"

namespace uc::admin {

struct MetricsOptions {
    std::string endpoint;        // "unix:PATH" or "HOST:PORT"; empty: none
    bool anywhere = false;       // TCP beyond the loopback interface
    std::optional<gid_t> group;  // whose members may use a unix socket, too
};

class MetricsServer {
public:
    // Bounds for hostile clients: the longest request head, connections at a time (the others wait
    // in the kernel's queue), and how long one may take from its beginning to its end.
    static constexpr std::size_t kMaxHead = 8 << 10;
    static constexpr std::size_t kMaxConnections = 8;
    static constexpr Duration kPatience = std::chrono::seconds(10);

    using Make = std::function<std::string(MetricsFormat)>;

    // `endpoint` is that of the options. `make` gives the text at each request.
    static Result<std::unique_ptr<MetricsServer>> listen(io::UringReactor& reactor,
                                                         async::Executor& executor,
                                                         const Endpoint& endpoint,
                                                         const MetricsOptions& options, Make make);
    // Only before serve() or after it has ended.
    ~MetricsServer();
    MetricsServer(const MetricsServer&) = delete;
    MetricsServer& operator=(const MetricsServer&) = delete;

    Task<void> serve();  // until stop()
    void stop();
    // "unix:PATH" or "http://HOST:PORT/metrics".
    std::string address() const;

private:
    struct Connection;
    MetricsServer(io::UringReactor& reactor, async::Executor& executor,
                  frontend::NbdListener listener, Make make);
    Task<void> converse(Connection& connection);
    Task<Result<std::string>> read_head(Connection& connection);
    std::string respond(const std::string& head) const;
    Task<void> cut_off_the_slow();

    io::UringReactor& reactor_;
    frontend::NbdListener listener_;
    Make make_;
    std::list<Connection> connections_;
    async::TaskGroup running_;
    async::Event changed_;
    bool stopping_ = false;
};

}  // namespace uc::admin
