#include "admin/supervisor.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "io/timed_wait.h"

namespace uc::admin {

namespace {

constexpr Duration kPatienceInterval = std::chrono::seconds(5);
constexpr auto kPatience = std::chrono::seconds(60);

std::string environment(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::string() : value;
}

std::uint64_t number(const std::string& text) {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    return parsed.ec == std::errc() && parsed.ptr == end ? value : 0;
}

// Half of it, as sd_watchdog_enabled(3) advises.
Duration watchdog_interval() {
    const std::string pid = environment("WATCHDOG_PID");
    if (!pid.empty() && number(pid) != static_cast<std::uint64_t>(getpid())) return {};
    const std::uint64_t limit = number(environment("WATCHDOG_USEC"));
    constexpr std::uint64_t kDayUs = 86'400'000'000;
    return std::chrono::microseconds(std::min(limit, kDayUs) / 2);
}

}  // namespace

Supervisor::Supervisor(io::Clock& clock)
    : clock_(clock), socket_(environment("NOTIFY_SOCKET")), watchdog_(watchdog_interval()) {
    if (socket_.size() >= sizeof(sockaddr_un::sun_path)) socket_.clear();
}

void Supervisor::status(const std::string& line) {
    if (line == status_) return;
    status_ = line;
    send("STATUS=" + line, Delivery::if_possible);
}

void Supervisor::ready() {
    enter(Phase::serving, "READY=1");
}

void Supervisor::stopping() {
    enter(Phase::stopping, "STOPPING=1");
}

void Supervisor::end() {
    phase_ = Phase::ended;
    changed_.notify();
}

void Supervisor::enter(Phase phase, const char* message) {
    phase_ = phase;
    send(message, Delivery::sure);
    changed_.notify();
}

Task<void> Supervisor::keep_alive() {
    if (socket_.empty()) co_return;
    const bool watched = watchdog_ != Duration{};
    while (phase_ != Phase::ended) {
        if (watched) send("WATCHDOG=1", Delivery::if_possible);
        if (impatient()) {
            send(
                fmt::format("EXTEND_TIMEOUT_USEC={}", std::chrono::microseconds(kPatience).count()),
                Delivery::if_possible);
        }
        if (!watched && !impatient()) {
            co_await changed_.wait();
            continue;
        }
        const Duration limit = impatient() ? kPatienceInterval : watchdog_;
        const Duration interval = watched ? std::min(limit, watchdog_) : limit;
        co_await io::TimedWait(clock_, changed_, interval);
    }
}

// A manager that does not read must not stop the daemon: only what changes its state waits.
void Supervisor::send(const std::string& message, Delivery delivery) const {
    if (socket_.empty()) return;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket_.data(), socket_.size());
    // '@' stands for the zero of an abstract name, which has no zero at its end.
    if (socket_[0] == '@') address.sun_path[0] = '\0';
    const std::size_t bytes =
        offsetof(sockaddr_un, sun_path) + socket_.size() + (socket_[0] == '@' ? 0 : 1);
    const int flags = MSG_NOSIGNAL | (delivery == Delivery::sure ? 0 : MSG_DONTWAIT);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    // Nobody to tell if it fails: the service manager will time out and say so.
    static_cast<void>(sendto(fd, message.data(), message.size(), flags,
                             reinterpret_cast<const sockaddr*>(&address),
                             static_cast<socklen_t>(bytes)));
    close(fd);
}

}  // namespace uc::admin
