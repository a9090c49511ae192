#include "admin/metrics_server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "io/timed_wait.h"

namespace uc::admin {

struct MetricsServer::Connection {
    Connection(int socket, Instant until) : fd(socket), deadline(until) {}
    ~Connection() { ::close(fd); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    int fd;
    Instant deadline;
    std::array<std::byte, 2048> chunk{};
};

namespace {

std::string response(std::string_view status, std::string_view type, std::string_view body) {
    return fmt::format(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
        status, type, body.size(), body);
}

std::string refusal(std::string_view status) {
    return response(status, "text/plain; charset=utf-8", fmt::format("{}\n", status));
}

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::listen(io::UringReactor& reactor,
                                                             async::Executor& executor,
                                                             const Endpoint& endpoint,
                                                             const MetricsOptions& options,
                                                             Make make) {
    const auto reach = options.anywhere ? frontend::Reach::anywhere : frontend::Reach::loopback;
    Result<frontend::NbdListener> listener =
        endpoint.path.empty() ? frontend::NbdListener::on_tcp(endpoint.host, endpoint.port, reach)
                              : frontend::NbdListener::on_path(endpoint.path, options.group);
    if (!listener) return tl::unexpected(listener.error());
    return std::unique_ptr<MetricsServer>(
        new MetricsServer(reactor, executor, std::move(*listener), std::move(make)));
}

MetricsServer::MetricsServer(io::UringReactor& reactor, async::Executor& executor,
                             frontend::NbdListener listener, Make make)
    : reactor_(reactor),
      listener_(std::move(listener)),
      make_(std::move(make)),
      running_(executor) {}

MetricsServer::~MetricsServer() {
    CHECK(connections_.empty());
}

std::string MetricsServer::address() const {
    const std::string& uri = listener_.address();
    constexpr std::string_view kScheme = "nbd://";
    if (!listener_.is_tcp()) return uri;
    return "http://" + uri.substr(kScheme.size()) + "/metrics";
}

Task<void> MetricsServer::serve() {
    constexpr Duration kAfterFailure = std::chrono::milliseconds(100);
    running_.spawn(cut_off_the_slow());
    while (!stopping_) {
        if (connections_.size() >= kMaxConnections) {
            co_await changed_.wait();
            continue;
        }
        const Result<std::size_t> accepted = co_await reactor_.accept(listener_.fd());
        if (!accepted && !stopping_) co_await reactor_.sleep(kAfterFailure);
        if (!accepted) continue;
        connections_.emplace_back(static_cast<int>(*accepted), reactor_.now() + kPatience);
        running_.spawn(converse(connections_.back()));
        changed_.notify();
    }
    co_await running_.drained();
}

void MetricsServer::stop() {
    if (stopping_) return;
    stopping_ = true;
    listener_.shut();
    for (const Connection& connection : connections_) ::shutdown(connection.fd, SHUT_RDWR);
    changed_.notify();
}

Task<void> MetricsServer::cut_off_the_slow() {
    constexpr Duration kInterval = std::chrono::seconds(1);
    while (!stopping_) {
        if (connections_.empty()) {
            co_await changed_.wait();
            continue;
        }
        co_await io::TimedWait(reactor_, changed_, kInterval);
        const Instant now = reactor_.now();
        for (const Connection& connection : connections_) {
            if (now >= connection.deadline) ::shutdown(connection.fd, SHUT_RDWR);
        }
    }
}

Task<void> MetricsServer::converse(Connection& connection) {
    const Result<std::string> head = co_await read_head(connection);
    std::string answer;
    if (head) answer = respond(*head);
    if (!head && head.error().code == Errc::invalid) {
        answer = refusal("431 Request Header Fields Too Large");
    }
    std::span<const std::byte> rest = std::as_bytes(std::span<const char>(answer));
    while (!rest.empty()) {
        const Result<std::size_t> sent = co_await reactor_.send(connection.fd, rest);
        if (!sent) break;
        rest = rest.subspan(*sent);
    }
    connections_.remove_if([&](const Connection& other) { return &other == &connection; });
    changed_.notify();
}

Task<Result<std::string>> MetricsServer::read_head(Connection& connection) {
    std::string head;
    while (head.find("\r\n\r\n") == std::string::npos) {
        if (head.size() > kMaxHead) co_return fail(Errc::invalid, "the request is too long");
        const Result<std::size_t> got = co_await reactor_.recv(connection.fd, connection.chunk);
        if (!got) co_return tl::unexpected(got.error());
        if (*got == 0) co_return fail(Errc::gone, "client is gone");
        head.append(reinterpret_cast<const char*>(connection.chunk.data()), *got);
    }
    co_return std::move(head);
}

std::string MetricsServer::respond(const std::string& head) const {
    const std::string_view line = std::string_view(head).substr(0, head.find("\r\n"));
    const std::size_t after_method = line.find(' ');
    const std::size_t after_path = line.rfind(' ');
    if (after_method == std::string_view::npos || after_path == after_method ||
        !line.substr(after_path + 1).starts_with("HTTP/1.")) {
        return refusal("400 Bad Request");
    }
    std::string_view path = line.substr(after_method + 1, after_path - after_method - 1);
    path = path.substr(0, path.find('?'));
    if (line.substr(0, after_method) != "GET") return refusal("405 Method Not Allowed");
    if (path != "/metrics") return refusal("404 Not Found");
    if (head.find("application/openmetrics-text") != std::string::npos) {
        return response("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8",
                        make_(MetricsFormat::openmetrics));
    }
    return response("200 OK", "text/plain; version=0.0.4; charset=utf-8",
                    make_(MetricsFormat::text));
}

}  // namespace uc::admin
