// Serves volumes over the NBD protocol on one listening socket. Runs on the reactor's thread.
//
// Life: listen_...() -> set_exports() -> serve() spawned -> ... -> stop() -> co_await stopped().
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "async/sync.h"
#include "base/result.h"
#include "frontend/export.h"
#include "frontend/lasting_listener.h"
#include "frontend/nbd_connection.h"
#include "frontend/nbd_listener.h"
#include "io/uring_reactor.h"

namespace uc::frontend {

using NbdExport = Export;

class NbdServer {
public:
    static constexpr std::size_t kMaxConnections = 256;
    using Log = LastingListener::Log;

    // Errors as in NbdListener. Reactor and executor outlive the server. `log` gets lines on what
    // becomes of the socket later.
    static Result<std::unique_ptr<NbdServer>> listen_unix(io::UringReactor& reactor,
                                                          async::Executor& executor,
                                                          const std::string& path,
                                                          std::optional<gid_t> group, Log log);
    static Result<std::unique_ptr<NbdServer>> listen_tcp(io::UringReactor& reactor,
                                                         async::Executor& executor,
                                                         const std::string& host,
                                                         std::uint16_t port,
                                                         Reach reach = Reach::loopback);
    // Only before serve() or after stopped().
    ~NbdServer();
    NbdServer(const NbdServer&) = delete;
    NbdServer& operator=(const NbdServer&) = delete;

    // The first is also the default export "". Clients may ask for a name, a uuid or a label that
    // only one has, in this order; names are listed. Connections to a volume that is no longer in
    // the list are stopped; the volume must live until `co_await unused(volume)` returns.
    void set_exports(std::vector<NbdExport> exports);
    // Waits until no connection uses the volume.
    Task<void> unused(const core::Volume* volume);

    // Accepts and serves until stop(), and until the last connection has ended. Counts as running
    // from the call on, so the task must be spawned or awaited. Once.
    Task<void> serve();
    // No new connections; those that exist answer what they have taken and end. May be called from
    // any task and more than once.
    void stop();
    // Waits for the end of serve(); at once if it was never started.
    Task<void> stopped();

    // NBD URI, for messages and clients.
    std::string address() const { return listener_.listener().address(); }
    std::size_t connections() const { return connections_.size(); }

private:
    NbdServer(io::UringReactor& reactor, async::Executor& executor, NbdListener listener, Log log);
    Task<void> accept_clients();
    Task<void> run_connection(int fd);
    void prepare_socket(int fd) const;

    LastingListener listener_;
    BufferPool pool_;
    NbdShared shared_;
    std::list<NbdConnection> connections_;
    async::TaskGroup running_;
    async::Event changed_;  // a connection or serve() has ended
    bool serving_ = false;
    bool stopping_ = false;
};

}  // namespace uc::frontend
