// A blank cache set with one backing device in writeback mode, in memory or on files, tuned so that
// every request goes through the cache, and the loads of raw.h on its volume.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "async/executor.h"
#include "base/rng.h"
#include "core/cache_set.h"
#include "io/uring_reactor.h"
#include "raw.h"
#include "watched_device.h"

namespace uc::bench {

class CachedWorld {
public:
    static std::unique_ptr<CachedWorld> in_memory(std::uint64_t cache_bytes,
                                                  std::uint64_t volume_bytes);
    // Overwrites both files, which exist.
    static std::unique_ptr<CachedWorld> on_files(const std::string& cache,
                                                 const std::string& backing);
    ~CachedWorld();
    CachedWorld(const CachedWorld&) = delete;
    CachedWorld& operator=(const CachedWorld&) = delete;

    // Writes the first `bytes` of the volume in blocks of this size: in order, or in an order that
    // leaves every block an extent of its own. Then lets the index be written.
    void fill(std::uint64_t bytes, std::uint32_t block_bytes, bool scattered);
    // One turn of a load on the first `bytes`. Aborts if a request was not a hit, or not cached, or
    // touched the backing device.
    Figures run(const Load& load, std::uint64_t bytes, std::chrono::nanoseconds length);
    // The cache completes requests through the executor instead of at once.
    void complete_later(bool on) { cache_->complete_later(on); }
    // Grows with each request that was not a hit, or not cached, or touched the backing device.
    std::uint64_t uncached() const;
    async::Executor& executor() { return executor_; }
    io::UringReactor& reactor() { return *reactor_; }
    core::SetVolume& volume() { return *volume_; }

private:
    CachedWorld();
    void open(std::unique_ptr<io::BlockDevice> cache, std::unique_ptr<io::BlockDevice> backing);
    Task<void> format_and_open();
    Task<void> format(io::BlockDevice& device, const ondisk::Superblock& superblock);
    Task<void> stop();
    Task<void> fill_with(std::uint64_t bytes, std::uint32_t block_bytes, bool scattered);
    Task<void> settle();
    void perform(Task<void> task);

    async::Executor executor_;
    std::unique_ptr<io::UringReactor> reactor_;
    Rng rng_{3};
    std::unique_ptr<WatchedDevice> cache_;
    std::unique_ptr<WatchedDevice> backing_;
    std::unique_ptr<core::CacheSet> set_;
    core::SetVolume* volume_ = nullptr;
};

}  // namespace uc::bench
