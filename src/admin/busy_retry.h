// Patience with what a killed process leaves behind. The kernel closes the files and sockets of an
// io_uring a moment after its process is gone, so right after a crash a lock, a socket or a mount
// may still seem to be in use.
#pragma once

#include <chrono>

#include "base/result.h"
#include "io/uring_reactor.h"

namespace uc::admin {

class BusyRetry {
public:
    explicit BusyRetry(io::UringReactor& reactor)
        : reactor_(reactor), deadline_(reactor.now() + kPatience) {}
    // `error` may pass by itself: wait for pause() and try again.
    bool worthwhile(const Error& error) const {
        return error.code == Errc::busy && reactor_.now() < deadline_;
    }
    [[nodiscard]] io::Clock::Sleep pause() const { return reactor_.sleep(kInterval); }

private:
    static constexpr Duration kPatience = std::chrono::seconds(2);
    static constexpr Duration kInterval = std::chrono::milliseconds(50);
    io::UringReactor& reactor_;
    Instant deadline_;
};

}  // namespace uc::admin
