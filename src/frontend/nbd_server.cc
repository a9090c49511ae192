#include "frontend/nbd_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace uc::frontend {

namespace {

constexpr std::size_t kPoolKeeps = std::size_t{64} << 20;
constexpr int kSocketBuffer = 1 << 20;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

// Out of descriptors or memory: passes when a connection ends.
bool passes(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// The client was gone before we took it.
bool concerns_client(int error) {
    return error == ECONNABORTED || error == EINTR || error == EPROTO || error == EPERM ||
           error == ENETDOWN || error == EHOSTUNREACH || error == ENETUNREACH;
}

}  // namespace

NbdServer::NbdServer(io::UringReactor& reactor, async::Executor& executor, NbdListener listener,
                     Log log)
    : listener_(reactor, std::move(listener), "NBD socket", std::move(log)),
      pool_(kPoolKeeps),
      shared_{reactor, executor, pool_, {}},
      running_(executor) {}

NbdServer::~NbdServer() {
    CHECK(!serving_);
}

Result<std::unique_ptr<NbdServer>> NbdServer::listen_unix(io::UringReactor& reactor,
                                                          async::Executor& executor,
                                                          const std::string& path,
                                                          std::optional<gid_t> group, Log log) {
    TRY(NbdListener listener, NbdListener::on_path(path, group));
    return std::unique_ptr<NbdServer>(
        new NbdServer(reactor, executor, std::move(listener), std::move(log)));
}

Result<std::unique_ptr<NbdServer>> NbdServer::listen_tcp(io::UringReactor& reactor,
                                                         async::Executor& executor,
                                                         const std::string& host,
                                                         std::uint16_t port, Reach reach) {
    TRY(NbdListener listener, NbdListener::on_tcp(host, port, reach));
    // There is no path that somebody could remove, so nothing to log.
    return std::unique_ptr<NbdServer>(new NbdServer(reactor, executor, std::move(listener), Log()));
}

void NbdServer::set_exports(std::vector<NbdExport> exports) {
    shared_.exports = std::move(exports);
    for (NbdConnection& connection : connections_) {
        if (connection.volume() == nullptr) continue;
        const auto found =
            std::ranges::find(shared_.exports, connection.volume(), &NbdExport::volume);
        if (found == shared_.exports.end()) connection.stop();
    }
}

Task<void> NbdServer::unused(const core::Volume* volume) {
    while (std::ranges::find(connections_, volume, &NbdConnection::volume) != connections_.end()) {
        co_await changed_.wait();
    }
}

Task<void> NbdServer::serve() {
    serving_ = true;
    return accept_clients();
}

Task<void> NbdServer::accept_clients() {
    running_.spawn(listener_.watch());
    while (!stopping_) {
        const Result<std::size_t> accepted = co_await listener_.accept();
        if (accepted) {
            const int fd = static_cast<int>(*accepted);
            if (stopping_ || connections_.size() >= kMaxConnections) {
                ::close(fd);
            } else {
                prepare_socket(fd);
                running_.spawn(run_connection(fd));
            }
            continue;
        }
        if (passes(accepted.error().sys)) {
            co_await shared_.reactor.sleep(kAcceptPause);
        } else if (!concerns_client(accepted.error().sys)) {
            break;
        }
    }
    listener_.shut();
    co_await running_.drained();
    serving_ = false;
    changed_.notify();
}

Task<void> NbdServer::run_connection(int fd) {
    const auto connection = connections_.emplace(connections_.end(), shared_, fd);
    if (stopping_) connection->stop();
    co_await connection->run();
    connections_.erase(connection);
    changed_.notify();
}

void NbdServer::prepare_socket(int fd) const {
    // The defaults make a batch of replies wait for the client several times. Best effort.
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer);
    if (!listener_.listener().is_tcp()) return;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void NbdServer::stop() {
    if (std::exchange(stopping_, true)) return;
    listener_.shut();
    for (NbdConnection& connection : connections_) connection.stop();
}

Task<void> NbdServer::stopped() {
    while (serving_) {
        co_await changed_.wait();
    }
}

}  // namespace uc::frontend
