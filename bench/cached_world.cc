#include "cached_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>

#include "async/sync.h"
#include "base/check.h"
#include "io/buffer.h"
#include "io/file_device.h"
#include "io/mem_device.h"
#include "ondisk/superblock.h"

namespace uc::bench {

namespace {

constexpr std::uint16_t kBucketSectors = 1024;
constexpr std::uint16_t kBlockSectors = 8;
// Requests between two looks at other tasks, for devices that complete at once.
constexpr std::uint64_t kPerSlice = 64;

ondisk::Uuid draw_uuid(Rng& rng) {
    ondisk::Uuid uuid;
    for (auto& byte : uuid.bytes) byte = static_cast<std::uint8_t>(rng.next() | 1);
    return uuid;
}

// A page's first touch is the kernel's cost, not the engine's.
void touch(io::BlockDevice& device) {
    io::Buffer piece = io::Buffer::zeroed(1 << 20);
    io::IoRequest request;
    request.kind = io::IoKind::write;
    request.data = piece.data();
    for (; request.sector < device.size_sectors(); request.sector += request.sectors) {
        request.sectors = std::min<std::uint64_t>(piece.size() / kSectorBytes,
                                                  device.size_sectors() - request.sector);
        CHECK(device.submit(&request));
        CHECK(request.ok);
    }
}

struct Progress {
    core::Volume& volume;
    Load load;
    Positions positions;
    std::uint64_t ops = 0;
    bool over = false;
};

Task<void> work(Progress& progress, std::span<std::byte> memory) {
    while (!progress.over) {
        const std::uint64_t sector = progress.positions.next_byte() / kSectorBytes;
        const core::WriteFlags flags;
        if (progress.load.write) {
            const Result<void> written = co_await progress.volume.write(sector, memory, flags);
            CHECK(written.has_value());
        } else {
            const Result<void> got = co_await progress.volume.read(sector, memory);
            CHECK(got.has_value());
        }
        if (++progress.ops % kPerSlice == 0) co_await async::Yield();
    }
}

}  // namespace

CachedWorld::CachedWorld() {
    auto reactor = io::UringReactor::create(executor_);
    CHECK(reactor.has_value());
    reactor_ = std::move(*reactor);
}

CachedWorld::~CachedWorld() {
    perform(stop());
    set_.reset();
    cache_.reset();
    backing_.reset();
    reactor_.reset();
}

std::unique_ptr<CachedWorld> CachedWorld::in_memory(std::uint64_t cache_bytes,
                                                    std::uint64_t volume_bytes) {
    std::unique_ptr<CachedWorld> world(new CachedWorld);
    auto cache = io::MemDevice::create(cache_bytes / kSectorBytes);
    auto backing = io::MemDevice::create(volume_bytes / kSectorBytes + ondisk::kDefaultDataOffset);
    CHECK(cache.has_value());
    CHECK(backing.has_value());
    touch(**cache);
    world->open(std::move(*cache), std::move(*backing));
    return world;
}

std::unique_ptr<CachedWorld> CachedWorld::on_files(const std::string& cache,
                                                   const std::string& backing) {
    std::unique_ptr<CachedWorld> world(new CachedWorld);
    auto fast = io::FileDevice::open(*world->reactor_, cache);
    auto slow = io::FileDevice::open(*world->reactor_, backing);
    CHECK(fast.has_value());
    CHECK(slow.has_value());
    if (!(*fast)->direct()) fmt::print("{}: without O_DIRECT\n", cache);
    world->open(std::move(*fast), std::move(*slow));
    return world;
}

void CachedWorld::open(std::unique_ptr<io::BlockDevice> cache,
                       std::unique_ptr<io::BlockDevice> backing) {
    cache_ = std::make_unique<WatchedDevice>(std::move(cache));
    backing_ = std::make_unique<WatchedDevice>(std::move(backing));
    perform(format_and_open());
}

void CachedWorld::perform(Task<void> task) {
    async::TaskGroup group(executor_);
    group.spawn(std::move(task));
    while (group.running() != 0) reactor_->turn(true);
}

Task<void> CachedWorld::format(io::BlockDevice& device, const ondisk::Superblock& superblock) {
    io::Buffer buffer(ondisk::kSuperblockBytes);
    std::ranges::copy(ondisk::encode_superblock(superblock), buffer.data());
    const Result<void> written = co_await device.write(ondisk::kSuperblockSector, buffer.span());
    CHECK(written.has_value());
}

Task<void> CachedWorld::format_and_open() {
    ondisk::Superblock sb;
    sb.uuid = draw_uuid(rng_);
    sb.set_uuid = draw_uuid(rng_);
    sb.nbuckets_or_offset = cache_->size_sectors() / kBucketSectors;
    sb.block_size = kBlockSectors;
    sb.bucket_size_raw = kBucketSectors;
    sb.nr_in_set = 1;
    sb.first_bucket =
        static_cast<std::uint16_t>(ondisk::Geometry::first_bucket_for(kBucketSectors));
    co_await format(*cache_, sb);
    ondisk::Superblock backing;
    backing.version = 1;
    backing.uuid = draw_uuid(rng_);
    backing.set_cache_mode(ondisk::CacheMode::writeback);
    backing.block_size = kBlockSectors;
    co_await format(*backing_, backing);

    core::SetOptions options;
    options.congested_read_threshold_us = 0;
    options.congested_write_threshold_us = 0;
    options.cutoff_writeback = 90;
    options.cutoff_writeback_sync = 90;
    core::Report report;
    const core::Env env{executor_, *reactor_, rng_};
    Result<std::unique_ptr<core::CacheSet>> opened =
        co_await core::CacheSet::open(env, *cache_, options, report);
    if (!opened) fmt::print(stderr, "open: {}\n", report.refusal);
    CHECK(opened.has_value());
    set_ = std::move(*opened);
    Result<core::SetVolume*> added =
        co_await set_->add_backing(*backing_, core::AttachMode::attach, report);
    if (!added) fmt::print(stderr, "attach: {}\n", report.refusal);
    CHECK(added.has_value());
    volume_ = *added;
    volume_->options().sequential_cutoff_bytes = 0;
    volume_->options().writeback_running = false;
    volume_->options_changed();
}

Task<void> CachedWorld::stop() {
    const Result<void> stopped = co_await set_->stop();
    CHECK(stopped.has_value());
}

void CachedWorld::fill(std::uint64_t bytes, std::uint32_t block_bytes, bool scattered) {
    perform(fill_with(bytes, block_bytes, scattered));
    perform(settle());
}

Task<void> CachedWorld::fill_with(std::uint64_t bytes, std::uint32_t block_bytes, bool scattered) {
    io::Buffer memory(block_bytes);
    std::ranges::generate(memory.span(),
                          [this] { return static_cast<std::byte>(rng_.next() & 0xff); });
    const std::uint64_t blocks = bytes / block_bytes;
    CHECK((blocks & (blocks - 1)) == 0);
    const std::uint64_t stride = scattered ? 0x9e3779b1 : 1;  // odd: visits each block once
    const core::WriteFlags flags;
    for (std::uint64_t i = 0; i < blocks; ++i) {
        const std::uint64_t block = i * stride % blocks;
        const std::uint64_t sector = block * block_bytes / kSectorBytes;
        const Result<void> written = co_await volume_->write(sector, memory.span(), flags);
        CHECK(written.has_value());
        if (i % kPerSlice == 0) co_await async::Yield();
    }
}

// The first write of a set changes the backing superblock, and leaves are written by age.
Task<void> CachedWorld::settle() {
    const Result<void> flushed = co_await volume_->flush();
    CHECK(flushed.has_value());
    co_await reactor_->sleep(std::chrono::milliseconds(500));
}

std::uint64_t CachedWorld::uncached() const {
    const core::VolumeStats& stats = volume_->stats();
    return stats.cache_misses + stats.cache_bypass_misses + stats.cache_bypass_hits +
           stats.bypassed_sectors + backing_->reads() + backing_->writes();
}

Figures CachedWorld::run(const Load& load, std::uint64_t bytes, std::chrono::nanoseconds length) {
    Progress progress{*volume_, load, Positions(load, bytes, rng_.next())};
    io::Buffer memory(std::size_t{load.block_bytes} * load.depth);
    std::memset(memory.data(), 0x3c, memory.size());
    async::TaskGroup group(executor_);
    for (unsigned i = 0; i < load.depth; ++i) {
        group.spawn(work(
            progress, memory.span().subspan(std::size_t{load.block_bytes} * i, load.block_bytes)));
    }
    executor_.run_one();
    const std::uint64_t uncached_before = uncached();
    const std::uint64_t ops_before = progress.ops;
    const Turn turn(length);
    while (!turn.over()) reactor_->turn(true);
    const Figures figures = turn.figures(progress.ops - ops_before);
    progress.over = true;
    while (group.running() != 0) reactor_->turn(true);
    if (uncached() != uncached_before) {
        fmt::print(stderr, "not everything went through the cache: in use {} %\n",
                   set_->in_use_percent());
        std::exit(1);
    }
    return figures;
}

}  // namespace uc::bench
