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
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "admin/arrivals.h"
#include "admin/busy_retry.h"
#include "admin/control_client.h"
#include "admin/control_requests.h"
#include "admin/control_server.h"
#include "admin/io_path_process.h"
#include "admin/metrics_server.h"
#include "admin/service_log.h"
#include "admin/set_host.h"
#include "admin/size_text.h"
#include "admin/status.h"
#include "admin/supervisor.h"

namespace uc::admin {

namespace {

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

void request_stop() {
    kill(getpid(), SIGTERM);
}

void note(const std::string& line) {
    log_line(Severity::info, line);
}

class Daemon {
public:
    Daemon(core::Env env, io::UringReactor& reactor, const DaemonOptions& options, int signals)
        : reactor_(reactor),
          options_(options.set),
          all_options_(options),
          signals_(signals),
          supervisor_(reactor),
          served_(env, reactor, options.set, [this](const std::string& line) { tell(line); }),
          requests_(env.executor, reactor, served_, &request_stop),
          host_(env.executor, reactor, served_, &request_stop, &note),
          sys_(env.executor, reactor, served_, options.sys, &note),
          tasks_(env.executor),
          executor_(env.executor) {
        served_.set_host(host_);
        if (!options_.assembled) return;
        arrivals_.emplace(reactor, served_, options_,
                          [this](const std::string& line) { tell(line); });
    }

    Task<void> run() {
        tasks_.spawn(supervisor_.keep_alive());
        supervisor_.status("opening " +
                           (options_.cache.empty() ? "without a cache" : options_.cache));
        Outcome<> ready = co_await listen();
        if (ready) {
            Outcome<> opened = co_await served_.open();
            ready = std::move(opened);
        }
        if (ready) {
            Outcome<> shown = co_await sys_.start();
            ready = std::move(shown);
        }
        if (ready) {
            Outcome<> metrics = co_await listen_for_metrics();
            ready = std::move(metrics);
        }
        if (ready) {
            host_.run();
            tasks_.spawn(control_->serve());
            if (arrivals_) tasks_.spawn(arrivals_->run());
            tasks_.spawn(become_ready());
            co_await wait_for_signal();
            log_line(Severity::info, "stopping");
        } else {
            fail_with(ready.error());
        }
        supervisor_.stopping();
        co_await shut_down();
        reactor_.stop();
    }
    int status() const { return status_; }

private:
    Task<Outcome<>> listen() {
        CO_OK(prepare_control_directory(options_.control));
        const BusyRetry retry(reactor_);
        while (!control_) {
            auto server = ControlServer::listen(reactor_, executor_, options_.control,
                                                options_.front_ends.group, requests_,
                                                [this](const std::string& line) { tell(line); });
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

    Task<void> become_ready() {
        if (arrivals_) co_await arrivals_->complete();
        if (!served_.stopping()) announce();
    }

    Task<Outcome<>> listen_for_metrics() {
        const MetricsOptions& wanted = all_options_.metrics;
        if (wanted.endpoint.empty()) co_return Outcome<>();
        CO_TRY(const Endpoint endpoint, parse_endpoint(wanted.endpoint, "--metrics"));
        const BusyRetry retry(reactor_);
        while (!metrics_) {
            auto server =
                MetricsServer::listen(reactor_, executor_, endpoint, wanted,
                                      [this](MetricsFormat f) { return metrics_text(served_, f); });
            if (server) {
                metrics_ = std::move(*server);
            } else if (retry.worthwhile(server.error())) {
                co_await retry.pause();
            } else {
                const bool far = endpoint.path.empty() && server.error().code == Errc::invalid;
                co_return tl::unexpected(explain("--metrics " + wanted.endpoint, server.error()) +
                                         (far ? "; --metrics-anywhere allows others" : ""));
            }
        }
        tasks_.spawn(metrics_->serve());
        co_return Outcome<>();
    }

    void announce() {
        for (const std::string& note : served_.notes()) log_line(Severity::info, note);
        for (const ServedVolume& volume : served_.volumes()) {
            log_line(Severity::info, volume_line(served_, volume));
        }
        if (metrics_) log_line(Severity::info, "metrics: " + metrics_->address());
        log_line(Severity::info, "ready; control socket " + options_.control);
        supervisor_.status(summary());
        supervisor_.ready();
    }

    // What happened from outside while the daemon runs.
    void tell(const std::string& line) {
        log_line(Severity::warning, line);
        if (served_.set() == nullptr) return;
        const bool sound = served_.set()->failure().empty();
        supervisor_.status(sound ? summary() : summary() + "; " + line);
    }

    // Without figures that change all the time.
    std::string summary() const {
        std::string names;
        for (const ServedVolume& volume : served_.volumes()) {
            names += (names.empty() ? "serving " : ", ") + volume.name;
        }
        return names.empty() ? "serving no volume" : names;
    }

    void fail_with(const std::string& error) {
        log_line(Severity::error, "ubcache serve: " + error);
        status_ = 1;
    }

    Task<void> wait_for_signal() {
        Result<std::size_t> ignored = co_await reactor_.poll(signals_, POLLIN);
        static_cast<void>(ignored);
        signalfd_siginfo info{};
        static_cast<void>(!read(signals_, &info, sizeof info));
    }

    Task<void> shut_down() {
        if (arrivals_) arrivals_->stop();
        co_await sys_.stop();
        if (metrics_) metrics_->stop();
        Outcome<> stopped = co_await served_.stop();
        if (!stopped) fail_with(stopped.error());
        co_await host_.stop();
        requests_.stopped(stopped ? std::string() : stopped.error());
        if (control_) control_->stop();
        supervisor_.end();
        co_await tasks_.drained();
        if (status_ == 0) log_line(Severity::info, "stopped");
    }

    io::UringReactor& reactor_;
    const ServeOptions& options_;
    const DaemonOptions& all_options_;
    int signals_;
    Supervisor supervisor_;
    ServedSet served_;
    ControlRequests requests_;
    std::optional<Arrivals> arrivals_;
    SetHost host_;
    SysTree sys_;
    std::unique_ptr<MetricsServer> metrics_;
    std::unique_ptr<ControlServer> control_;
    async::TaskGroup tasks_;
    async::Executor& executor_;
    int status_ = 0;
};

}  // namespace

int serve_command(const DaemonOptions& options) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const std::string memory_note = join_io_path();
    if (!memory_note.empty()) log_line(Severity::info, memory_note);
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
