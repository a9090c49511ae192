// Order of life: control socket (refuses a second daemon before any device is touched) -> devices
// and set -> front ends -> READY. And of death: front ends -> set -> the answer to whoever asked
// for it
// -> control socket.
//
// There is one way to stop: a signal, polled through a signalfd. A request to stop sends that
// signal to the process itself, so no poll is left pending.
#include "admin/daemon.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "admin/busy_retry.h"
#include "admin/control_client.h"
#include "admin/control_requests.h"
#include "admin/control_server.h"
#include "admin/size_text.h"
#include "admin/status.h"

namespace uc::admin {

namespace {

// systemd's notification protocol: one datagram to the socket named in the environment.
void notify_service_manager(const char* state) {
    const char* path = std::getenv("NOTIFY_SOCKET");
    sockaddr_un address{};
    if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) return;
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path);
    socklen_t bytes = sizeof address;
    if (path[0] == '@') {  // an abstract name: no terminating zero
        address.sun_path[0] = '\0';
        bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    // Nobody to tell if it fails: the service manager will time out and say so.
    static_cast<void>(sendto(fd, state, std::strlen(state), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address), bytes));
    close(fd);
}

std::uint64_t random_seed() {
    std::uint64_t seed = 0;
    CHECK(getrandom(&seed, sizeof seed, 0) == static_cast<ssize_t>(sizeof seed));
    return seed;
}

int stop_signals_fd() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    // Before any thread starts, so that all inherit it.
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

// Only the default's directory is made: /run is empty after each boot.
Outcome<> prepare_control_directory(const std::string& path) {
    std::error_code error;
    if (path == kDefaultControlPath) {
        const std::filesystem::path directory = std::filesystem::path(path).parent_path();
        std::filesystem::create_directory(directory, error);
        if (error) {
            return tl::unexpected(fmt::format(
                "{} cannot be created: {}; choose another control socket with --control",
                directory.string(), error.message()));
        }
    }
    const Outcome<> there = check_parent(path);
    if (!there) return tl::unexpected(fmt::format("--control {}: {}", path, there.error()));
    return {};
}

void print(const std::string& line) {
    std::printf("%s\n", line.c_str());
}

class Daemon {
public:
    Daemon(core::Env env, io::UringReactor& reactor, const ServeOptions& options, int signals)
        : reactor_(reactor),
          options_(options),
          signals_(signals),
          served_(env, reactor, options, &print),
          requests_(env.executor, reactor, served_, [] { kill(getpid(), SIGTERM); }),
          tasks_(env.executor),
          executor_(env.executor) {}

    Task<void> run() {
        Outcome<> ready = co_await listen();
        if (ready) {
            Outcome<> opened = co_await served_.open();
            ready = std::move(opened);
        }
        if (ready) {
            announce();
            tasks_.spawn(control_->serve());
            co_await wait_for_signal();
            std::printf("stopping\n");
            notify_service_manager("STOPPING=1\n");
        } else {
            std::fprintf(stderr, "ubcache serve: %s\n", ready.error().c_str());
            status_ = 1;
        }
        co_await shut_down();
        reactor_.stop();
    }
    int status() const { return status_; }

private:
    Task<Outcome<>> listen() {
        CO_OK(prepare_control_directory(options_.control));
        const BusyRetry retry(reactor_);
        while (!control_) {
            auto server =
                ControlServer::listen(reactor_, executor_, options_.control, requests_, &print);
            if (server) {
                control_ = std::move(*server);
            } else if (retry.worthwhile(server.error())) {
                co_await retry.pause();
            } else if (server.error().code == Errc::busy) {
                co_return tl::unexpected(fmt::format(
                    "{}: another ubcache daemon listens there; choose another path with "
                    "--control",
                    options_.control));
            } else {
                co_return tl::unexpected(explain(options_.control, server.error()));
            }
        }
        co_return Outcome<>();
    }

    void announce() {
        for (const std::string& note : served_.notes()) print(note);
        for (const ServedVolume& volume : served_.volumes()) print(volume_line(served_, volume));
        std::printf("ready; control socket %s\n", options_.control.c_str());
        notify_service_manager("READY=1\n");
    }

    Task<void> wait_for_signal() {
        Result<std::size_t> ignored = co_await reactor_.poll(signals_, POLLIN);
        static_cast<void>(ignored);
        signalfd_siginfo info{};
        static_cast<void>(!read(signals_, &info, sizeof info));
    }

    Task<void> shut_down() {
        Outcome<> stopped = co_await served_.stop();
        if (!stopped) {
            std::fprintf(stderr, "ubcache serve: %s\n", stopped.error().c_str());
            status_ = 1;
        }
        requests_.stopped(stopped ? std::string() : stopped.error());
        if (control_) control_->stop();
        co_await tasks_.drained();
        if (status_ == 0) std::printf("stopped\n");
    }

    io::UringReactor& reactor_;
    const ServeOptions& options_;
    int signals_;
    ServedSet served_;
    ControlRequests requests_;
    std::unique_ptr<ControlServer> control_;
    async::TaskGroup tasks_;
    async::Executor& executor_;
    int status_ = 0;
};

}  // namespace

int serve_command(const ServeOptions& options) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const int signals = stop_signals_fd();
    async::Executor executor;
    auto reactor = io::UringReactor::create(executor);
    if (signals < 0 || !reactor) {
        const Error error = reactor ? Error{Errc::io, errno, "signalfd"} : reactor.error();
        std::fprintf(stderr, "%s\n", explain("ubcache serve", error).c_str());
        return 1;
    }
    Rng rng(random_seed());
    const core::Env env{executor, **reactor, rng};
    Daemon daemon(env, **reactor, options, signals);
    executor.spawn(daemon.run());
    (*reactor)->run();
    close(signals);
    // What a daemon prints is a log. That it could not be written does not make the service fail.
    static_cast<void>(std::fflush(stdout));
    std::clearerr(stdout);
    return daemon.status();
}

}  // namespace uc::admin
