// Bounds against hostile or broken clients: a line ends after kMaxLine bytes or the connection
// does; more than kMaxConnections are turned away; a client that does not read blocks only itself.
// Requests of one connection are handled one after the other.
//
// Stopping: the listener and the reading side of each connection are shut down, which completes the
// pending accept and receives. What is being handled still gets its answer.
#include "admin/control_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <span>
#include <utility>

#include "io/timed_wait.h"

namespace uc::admin {

struct ControlServer::Connection final : ControlReply {
    Connection(io::UringReactor& reactor, int socket) : reactor_(reactor), fd(socket) {}
    ~Connection() override { ::close(fd); }

    Task<Result<void>> send(std::string line) override {
        if (broken) co_return fail(Errc::gone, "client is gone");
        line += '\n';
        std::span<const std::byte> rest = std::as_bytes(std::span<const char>(line));
        while (!rest.empty()) {
            Result<std::size_t> sent = co_await reactor_.send(fd, rest);
            if (!sent) {
                broken = true;
                co_return tl::unexpected(sent.error());
            }
            rest = rest.subspan(*sent);
        }
        co_return Result<void>();
    }

    io::UringReactor& reactor_;
    int fd;
    bool broken = false;
    std::string received;  // not yet taken as a line
    std::array<std::byte, 4096> chunk{};
};

Result<std::unique_ptr<ControlServer>> ControlServer::listen(io::UringReactor& reactor,
                                                             async::Executor& executor,
                                                             const std::string& path,
                                                             std::optional<gid_t> group,
                                                             ControlHandler& handler, Log log) {
    TRY(frontend::NbdListener listener, frontend::NbdListener::on_path(path, group));
    return std::unique_ptr<ControlServer>(
        new ControlServer(reactor, executor, std::move(listener), handler, std::move(log)));
}

ControlServer::ControlServer(io::UringReactor& reactor, async::Executor& executor,
                             frontend::NbdListener listener, ControlHandler& handler, Log log)
    : reactor_(reactor),
      listener_(reactor, std::move(listener), "control socket", std::move(log)),
      handler_(handler),
      running_(executor) {}

ControlServer::~ControlServer() {
    CHECK(connections_.empty());
}

Task<void> ControlServer::serve() {
    constexpr Duration kAfterFailure = std::chrono::milliseconds(100);
    running_.spawn(listener_.watch());
    while (!stopping_) {
        Result<std::size_t> accepted = co_await listener_.accept();
        if (!accepted && !stopping_) {
            // Out of descriptors or memory: it may pass.
            co_await reactor_.sleep(kAfterFailure);
        }
        if (!accepted) continue;
        connections_.emplace_back(reactor_, static_cast<int>(*accepted));
        running_.spawn(converse(connections_.back()));
    }
    co_await drain();
}

Task<void> ControlServer::converse(Connection& connection) {
    const bool crowded = connections_.size() > kMaxConnections;
    if (crowded) co_await connection.send(handler_.refusal("too many connections"));
    while (!stopping_ && !crowded) {
        Result<std::string> line = co_await read_line(connection);
        if (!line && line.error().code == Errc::invalid) {
            co_await connection.send(handler_.refusal(line.error().what));
        }
        if (!line) break;
        std::string answer = co_await handler_.handle(std::move(*line), connection);
        Result<void> sent = co_await connection.send(std::move(answer));
        if (!sent) break;
    }
    connections_.remove_if([&](const Connection& other) { return &other == &connection; });
    ended_.notify();
}

Task<Result<std::string>> ControlServer::read_line(Connection& connection) {
    for (;;) {
        const std::size_t end = connection.received.find('\n');
        if (end != std::string::npos) {
            std::string line = connection.received.substr(0, end);
            connection.received.erase(0, end + 1);
            co_return std::move(line);
        }
        if (connection.received.size() > kMaxLine) co_return fail(Errc::invalid, "line too long");
        Result<std::size_t> got = co_await reactor_.recv(connection.fd, connection.chunk);
        if (!got) co_return tl::unexpected(got.error());
        if (*got == 0) co_return fail(Errc::gone, "client is gone");
        connection.received.append(reinterpret_cast<const char*>(connection.chunk.data()), *got);
    }
}

void ControlServer::stop() {
    if (stopping_) return;
    stopping_ = true;
    listener_.shut();
    shut_connections(SHUT_RD);
}

void ControlServer::shut_connections(int how) {
    for (const Connection& connection : connections_) ::shutdown(connection.fd, how);
}

Task<void> ControlServer::drain() {
    constexpr Duration kPatience = std::chrono::seconds(2);
    const Instant deadline = reactor_.now() + kPatience;
    while (!connections_.empty()) {
        if (reactor_.now() >= deadline) shut_connections(SHUT_RDWR);
        co_await io::TimedWait(reactor_, ended_, kPatience);
    }
    co_await running_.drained();
}

}  // namespace uc::admin
