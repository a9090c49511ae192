// Serves a cached volume that lives in memory over NBD until SIGTERM, for nbd_bench:
//
//   nbd_memory SOCKET MIB
//
// Exit status 1 if not every request went through the cache.
#include <poll.h>
#include <sys/signalfd.h>

#include <csignal>
#include <cstdlib>

#include "async/sync.h"
#include "base/check.h"
#include "cached_world.h"
#include "frontend/nbd_server.h"

namespace uc::bench {
namespace {

Task<void> stop_on_signal(io::UringReactor& reactor, frontend::NbdServer& server, int signals) {
    const Result<std::size_t> arrived = co_await reactor.poll(signals, POLLIN);
    CHECK(arrived.has_value());
    server.stop();
}

int serve(const char* path, std::uint64_t bytes) {
    sigset_t terminate;
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    sigprocmask(SIG_BLOCK, &terminate, nullptr);
    const int signals = signalfd(-1, &terminate, SFD_CLOEXEC);

    const auto world = CachedWorld::in_memory(8 * bytes, bytes);
    world->fill(bytes, 128 << 10, false);
    auto server = frontend::NbdServer::listen_unix(world->reactor(), world->executor(), path,
                                                   std::nullopt, [](const std::string&) {});
    CHECK(server.has_value());
    (*server)->set_exports({{"memory", &world->volume(), ""}});
    const std::uint64_t before = world->uncached();
    async::TaskGroup group(world->executor());
    group.spawn((*server)->serve());
    group.spawn(stop_on_signal(world->reactor(), **server, signals));
    while (group.running() != 0) world->reactor().turn(true);
    server->reset();
    return world->uncached() == before ? 0 : 1;
}

}  // namespace
}  // namespace uc::bench

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    return uc::bench::serve(argv[1], static_cast<std::uint64_t>(std::atoi(argv[2])) << 20);
}
