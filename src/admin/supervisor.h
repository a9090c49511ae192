// What the daemon tells systemd, if that started it: the notification protocol of sd_notify(3),
// which is one datagram of NAME=VALUE lines to the socket in $NOTIFY_SOCKET. Sent from here rather
// than with libsystemd, which would be one more library in the initramfs for a single sendto().
//
// While a set opens or stops, which with much to replay or to write back takes as long as it takes,
// the manager's patience is extended as long as the daemon's loop turns. A watchdog, if the unit
// asks for one, is fed from the same loop: it bites when that hangs.
#pragma once

#include <cstdint>
#include <string>

#include "async/sync.h"
#include "async/task.h"
#include "io/clock.h"

namespace uc::admin {

class Supervisor {
public:
    // Reads $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID; without them everything here is a
    // no-op. The clock outlives it.
    explicit Supervisor(io::Clock& clock);
    Supervisor(const Supervisor&) = delete;
    Supervisor& operator=(const Supervisor&) = delete;

    // The line that `systemctl status` shows. Sent only if it is another one than before.
    void status(const std::string& line);
    void ready();
    void stopping();
    // Feeds watchdog and patience until end().
    Task<void> keep_alive();
    void end();

private:
    enum class Phase : std::uint8_t { opening, serving, stopping, ended };
    void enter(Phase phase, const char* message);
    bool impatient() const { return phase_ == Phase::opening || phase_ == Phase::stopping; }
    enum class Delivery : std::uint8_t { sure, if_possible };
    void send(const std::string& message, Delivery delivery) const;

    io::Clock& clock_;
    std::string socket_;   // empty: nobody to tell
    Duration watchdog_{};  // zero: none
    Phase phase_ = Phase::opening;
    std::string status_;
    async::Event changed_;
};

}  // namespace uc::admin
