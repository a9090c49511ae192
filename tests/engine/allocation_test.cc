// No memory is allocated for a request in steady state: counted by this program's own operator new,
// with 32 requests under way on devices that complete them later.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "core/cache_set.h"
#include "io/buffer.h"
#include "io/mem_device.h"
#include "ondisk/superblock.h"

namespace {
std::atomic<std::uint64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
    void* const memory = std::aligned_alloc(alignment, whole);
    if (memory == nullptr) std::abort();
    return memory;
}
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
    return counted(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return counted(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}

namespace uc::test {
namespace {

constexpr unsigned kDepth = 32;
constexpr std::uint64_t kBlock = 8;
constexpr std::uint64_t kPerClient = 16;  // blocks

// Does the work at once, but says so later.
class LateDevice final : public io::BlockDevice {
public:
    explicit LateDevice(std::uint64_t sectors) : below_(*io::MemDevice::create(sectors)) {
        waiting_.reserve(1024);
        woken_.reserve(1024);
    }
    bool submit(io::IoRequest* request) override {
        below_->submit(request);
        waiting_.push_back(request->waiter);
        return false;
    }
    bool pump() {
        waiting_.swap(woken_);
        const bool any = !woken_.empty();
        for (async::Waiter* waiter : woken_) waiter->wake();
        woken_.clear();
        return any;
    }
    void put(const ondisk::Superblock& superblock) {
        const auto bytes = ondisk::encode_superblock(superblock);
        io::IoRequest request;
        request.kind = io::IoKind::write;
        request.sector = ondisk::kSuperblockSector;
        request.sectors = bytes.size() / kSectorBytes;
        request.data = const_cast<std::byte*>(bytes.data());
        below_->submit(&request);
    }
    std::uint64_t size_sectors() const override { return below_->size_sectors(); }
    std::uint32_t logical_block_sectors() const override { return 1; }
    const std::string& name() const override { return below_->name(); }

private:
    std::unique_ptr<io::MemDevice> below_;
    std::vector<async::Waiter*> waiting_;
    std::vector<async::Waiter*> woken_;
};

// A millisecond goes by whenever everybody waits.
class StepClock final : public io::Clock {
public:
    StepClock() { timers_.reserve(256); }
    Instant now() const override { return now_; }
    std::uint32_t wall_seconds() const override { return 1'700'000'000; }
    void arm(io::Timer* timer) override {
        timer->armed = true;
        timers_.push_back(timer);
    }
    void cancel(io::Timer* timer) override {
        if (timer->armed) std::erase(timers_, timer);
        timer->armed = false;
    }
    void step() {
        now_ = now_ + std::chrono::milliseconds(1);
        for (std::size_t i = 0; i < timers_.size();) {
            io::Timer* const timer = timers_[i];
            if (timer->due > now_) {
                ++i;
                continue;
            }
            timers_.erase(timers_.begin() + static_cast<std::ptrdiff_t>(i));
            timer->armed = false;
            timer->fire();
        }
    }

private:
    Instant now_;
    std::vector<io::Timer*> timers_;
};

class Allocation : public testing::Test {
protected:
    Allocation() : cache(1 << 18), backing(1 << 18) {
        ondisk::Superblock sb;
        sb.version = 0;
        sb.uuid.bytes.fill(1);
        sb.set_uuid.bytes.fill(2);
        sb.nbuckets_or_offset = 2048;
        sb.block_size = kBlock;
        sb.bucket_size_raw = 128;
        sb.nr_in_set = 1;
        sb.first_bucket = 1;
        cache.put(sb);
        sb = {};
        sb.version = 1;
        sb.uuid.bytes.fill(3);
        sb.set_cache_mode(ondisk::CacheMode::writeback);
        sb.block_size = kBlock;
        backing.put(sb);
        const core::Env env{executor, clock, rng};
        auto opened = run(core::CacheSet::open(env, cache, core::SetOptions(), report));
        EXPECT_TRUE(opened) << report.refusal;
        set = std::move(*opened);
        const auto added = run(set->add_backing(backing, core::AttachMode::attach, report));
        EXPECT_TRUE(added) << report.refusal;
        volume = *added;
        volume->options().writeback_running = false;
        volume->options().sequential_cutoff_bytes = 0;
        volume->options_changed();
        for (unsigned i = 0; i < kDepth; ++i) buffers.emplace_back(kBlock * kSectorBytes);
    }
    ~Allocation() override { EXPECT_TRUE(run(set->stop())); }

    void turn() {
        executor.run_ready();
        const bool any = cache.pump();
        if (!backing.pump() && !any) clock.step();
    }
    template <class T>
    T run(Task<T> task) {
        std::optional<T> result;
        executor.spawn(keep(std::move(task), result));
        while (!result) turn();
        return std::move(*result);
    }
    template <class T>
    static Task<void> keep(Task<T> task, std::optional<T>& out) {
        T result = co_await std::move(task);
        out.emplace(std::move(result));
    }

    Task<void> client(unsigned number, bool write, unsigned requests) {
        const std::span<std::byte> data = buffers[number].span();
        const core::WriteFlags flags;
        for (unsigned i = 0; i < requests; ++i) {
            const std::uint64_t block = number * kPerClient + i % kPerClient;
            // Every second block, so that extents stay apart.
            const std::uint64_t at = block * 2 * kBlock;
            if (write) {
                const Result<void> done = co_await volume->write(at, data, flags);
                failed += !done;
            } else {
                const Result<void> done = co_await volume->read(at, data);
                failed += !done;
            }
        }
        ++ended;
    }
    // Allocations of so many requests of each client.
    std::uint64_t count(bool write, unsigned requests) {
        ended = 0;
        for (unsigned i = 0; i < kDepth; ++i) executor.spawn(client(i, write, requests));
        const std::uint64_t before = allocations;
        while (ended != kDepth) turn();
        return allocations - before;
    }

    LateDevice cache;
    LateDevice backing;
    StepClock clock;
    async::Executor executor;
    Rng rng{1};
    core::Report report;
    std::unique_ptr<core::CacheSet> set;
    core::SetVolume* volume = nullptr;
    std::vector<io::Buffer> buffers;
    unsigned ended = 0;
    unsigned failed = 0;
};

TEST_F(Allocation, AReadThatHitsNeedsNone) {
    count(true, kPerClient);
    count(false, 64);
    EXPECT_EQ(count(false, 512), 0u);
    EXPECT_EQ(volume->stats().cache_misses, 0u);
    EXPECT_EQ(failed, 0u);
}

// What it puts into the index and into the list of what a flush has to cover grows by chunks of
// some twenty entries, and leaves are written meanwhile: one in nine, measured.
TEST_F(Allocation, AnOverwriteNeedsNoneOfItsOwn) {
    count(true, 512);
    const unsigned requests = kDepth * 512;
    const std::uint64_t needed = count(true, 512);
    EXPECT_LT(needed, requests / 7) << "for " << requests << " requests";
    EXPECT_GT(volume->dirty_sectors(), 0u);
    EXPECT_EQ(failed, 0u);
}

}  // namespace
}  // namespace uc::test
