// Serves volumes in memory over NBD and FUSE until SIGTERM, for the scripts beside this file and
// for measuring the front ends alone.
//
//   serve_memory [--unix PATH] [--tcp PORT] [--fuse DIR] NAME=MIB...
//
// Prints "ready ADDRESS..." when clients may come.
#include <poll.h>
#include <sys/signalfd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "frontend/fuse_export.h"
#include "frontend/nbd_server.h"
#include "io/uring_reactor.h"
#include "memory_volume.h"

namespace uc::frontend {
namespace {

struct Service {
    async::Executor executor;
    std::unique_ptr<io::UringReactor> reactor;
    std::vector<std::unique_ptr<MemoryVolume>> volumes;
    std::vector<std::unique_ptr<NbdServer>> servers;
    std::unique_ptr<FuseExport> fuse;
};

[[noreturn]] void give_up(const char* what, const char* why, int error = 0) {
    std::fprintf(stderr, "serve_memory: %s: %s (error %d)\n", what, why, error);
    std::exit(1);
}

template <class T>
T or_give_up(const char* what, Result<T> result) {
    if (!result) give_up(what, result.error().what, result.error().sys);
    return std::move(*result);
}

Task<void> stop_on_signal(Service& service, int signals) {
    const Result<std::size_t> got = co_await service.reactor->poll(signals, POLLIN);
    if (!got) give_up("poll", got.error().what, got.error().sys);
    for (const auto& server : service.servers) server->stop();
    if (service.fuse) service.fuse->stop();
    for (const auto& server : service.servers) {
        co_await server->stopped();
    }
    if (service.fuse) {
        co_await service.fuse->stopped();
    }
    service.reactor->stop();
}

void mount(Service& service, const std::string& dir) {
    std::string message;
    auto mounted = FuseExport::mount(*service.reactor, service.executor, dir, {}, &message);
    if (!mounted) give_up(dir.c_str(), message.c_str(), mounted.error().sys);
    service.fuse = std::move(*mounted);
}

void add_volume(Service& service, const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) give_up(text.c_str(), "expected NAME=MIB");
    const auto mib = std::strtoull(text.c_str() + equals + 1, nullptr, 10);
    service.volumes.push_back(std::make_unique<MemoryVolume>(text.substr(0, equals), mib << 20));
}

void parse(Service& service, const std::vector<std::string>& args) {
    io::UringReactor& reactor = *service.reactor;
    for (std::size_t i = 0; i < args.size(); ++i) {
        const std::string value = i + 1 < args.size() ? args[i + 1] : "";
        if (args[i] == "--unix") {
            service.servers.push_back(or_give_up(
                "--unix", NbdServer::listen_unix(reactor, service.executor, value, std::nullopt,
                                                 [](const std::string& line) {
                                                     std::fprintf(stderr, "%s\n", line.c_str());
                                                 })));
        } else if (args[i] == "--tcp") {
            const auto port = static_cast<std::uint16_t>(std::atoi(value.c_str()));
            service.servers.push_back(or_give_up(
                "--tcp", NbdServer::listen_tcp(reactor, service.executor, "127.0.0.1", port)));
        } else if (args[i] == "--fuse") {
            mount(service, value);
        } else {
            add_volume(service, args[i]);
            continue;
        }
        ++i;
    }
}

int run(const std::vector<std::string>& args) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, nullptr);

    Service service;
    service.reactor = or_give_up("io_uring", io::UringReactor::create(service.executor));
    parse(service, args);
    std::vector<Export> exports;
    for (const auto& volume : service.volumes) {
        exports.push_back({volume->name(), volume.get(), "memory volume " + volume->name()});
    }
    service.executor.spawn(stop_on_signal(service, signalfd(-1, &signals, SFD_CLOEXEC)));
    std::string ready = "ready";
    for (const auto& server : service.servers) {
        server->set_exports(exports);
        service.executor.spawn(server->serve());
        ready += " " + server->address();
    }
    if (service.fuse) {
        service.fuse->set_volumes(exports);
        service.executor.spawn(service.fuse->serve());
    }
    std::puts(ready.c_str());
    std::fflush(stdout);
    service.reactor->run();
    return 0;
}

}  // namespace
}  // namespace uc::frontend

int main(int argc, char** argv) {
    return uc::frontend::run(std::vector<std::string>(argv + 1, argv + argc));
}
