// A listening socket that clients can reach for as long as its server runs, even if somebody
// removes the file of a unix socket.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "async/sync.h"
#include "async/task.h"
#include "base/result.h"
#include "frontend/nbd_listener.h"
#include "io/uring_reactor.h"

namespace uc::frontend {

class LastingListener {
public:
    using Log = std::function<void(const std::string&)>;

    // `what` names the socket in the lines that `log` gets when its file is lost or back. The
    // reactor outlives this.
    LastingListener(io::UringReactor& reactor, NbdListener listener, std::string what, Log log);

    // The descriptor of the next client, which the caller owns. One at a time. Errors: those of
    // accept(2), EINVAL after shut().
    Task<Result<std::size_t>> accept();
    // Looks after the file until shut(). Once.
    Task<void> watch();
    // One look: binds the path anew if it is lost. A path that another server or another kind of
    // file has now is left to it until it is free.
    void look();
    // Ends a pending accept() and watch(), and refuses new clients.
    void shut();

    const NbdListener& listener() const { return listener_; }

private:
    io::UringReactor& reactor_;
    NbdListener listener_;
    std::optional<NbdListener> successor_;  // takes over when listener_ is shut
    std::string what_;
    Log log_;
    async::Event shut_asked_;
    bool shut_ = false;
    bool lost_ = false;  // and said so
};

}  // namespace uc::frontend
