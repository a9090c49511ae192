#include "device_load.h"

#include <span>

#include "base/check.h"
#include "io/buffer.h"

namespace uc::bench {

namespace {

struct Progress {
    io::BlockDevice& device;
    Load load;
    Positions positions;
    std::uint64_t ops = 0;
    std::uint64_t limit = ~0ULL;
    unsigned running = 0;
    bool over = false;
};

Task<void> work(Progress& progress, std::span<std::byte> memory) {
    while (!progress.over && progress.ops < progress.limit) {
        const std::uint64_t sector = progress.positions.next_byte() / kSectorBytes;
        if (progress.load.write) {
            const Result<void> written = co_await progress.device.write(sector, memory);
            CHECK(written.has_value());
        } else {
            const Result<void> got = co_await progress.device.read(sector, memory);
            CHECK(got.has_value());
        }
        ++progress.ops;
    }
    --progress.running;
}

}  // namespace

Figures run_load(async::Executor& executor, io::UringReactor& reactor, io::BlockDevice& device,
                 const Load& load, std::chrono::nanoseconds length, std::uint64_t seed) {
    Progress progress{device, load, Positions(load, device.size_sectors() * kSectorBytes, seed)};
    io::Buffer memory(std::size_t{load.block_bytes} * load.depth);
    for (unsigned i = 0; i < load.depth; ++i) {
        ++progress.running;
        executor.spawn(work(
            progress, memory.span().subspan(std::size_t{load.block_bytes} * i, load.block_bytes)));
    }
    executor.run_ready();
    const Turn turn(length);
    while (!turn.over()) reactor.turn(true);
    const Figures figures = turn.figures(progress.ops);
    progress.over = true;
    while (progress.running > 0) reactor.turn(true);
    return figures;
}

Figures run_memory_load(async::Executor& executor, io::BlockDevice& device, const Load& load,
                        std::chrono::nanoseconds length, std::uint64_t seed) {
    constexpr std::uint64_t kChunk = 4096;
    Progress progress{device, load, Positions(load, device.size_sectors() * kSectorBytes, seed)};
    io::Buffer memory(load.block_bytes);
    progress.limit = 0;
    const Turn turn(length);
    while (!turn.over()) {
        progress.limit += kChunk;
        ++progress.running;
        executor.spawn(work(progress, memory.span()));
        executor.run_ready();
    }
    return turn.figures(progress.ops);
}

}  // namespace uc::bench
