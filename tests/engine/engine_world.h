// A cache set on simulated disks for one named situation: three lines to build it, then acts and
// checks. Everything runs in virtual time and to its end.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cache_set.h"
#include "io/buffer.h"
#include "sim/disk_bytes.h"
#include "sim/sim_world.h"
#include "watched_device.h"

namespace uc::test {

using core::AttachMode;
using core::Reason;
using core::SetVolume;
using ondisk::BackingState;
using ondisk::CacheMode;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

struct CacheShape {
    std::uint64_t nbuckets = 640;  // not many more than the least that the kernel takes
    std::uint32_t bucket_sectors = 128;
    std::uint32_t block_sectors = 8;
    ondisk::Replacement replacement = ondisk::Replacement::lru;
};

struct BackingShape {
    CacheMode mode = CacheMode::writeback;
    std::uint64_t sectors = 1 << 17;
    std::uint16_t block_sectors = 8;
    std::string label{};
    bool discard = false;
};

// Distinct for every sector and version.
io::Buffer pattern(std::uint64_t sector, std::uint64_t sectors, unsigned version);

class EngineWorld {
public:
    explicit EngineWorld(CacheShape shape = {});
    ~EngineWorld();
    EngineWorld(const EngineWorld&) = delete;
    EngineWorld& operator=(const EngineWorld&) = delete;

    // A formatted backing device, not attached yet.
    WatchedDevice& format(BackingShape shape = {});
    // A device with that superblock.
    WatchedDevice& put(const ondisk::Superblock& superblock, std::uint64_t sectors);

    Result<void> open(core::SetOptions options = {});
    Result<SetVolume*> add(WatchedDevice& backing, AttachMode mode = AttachMode::attach);
    // Opens the set and attaches the device; write-back rests until a test asks for it.
    SetVolume& start(WatchedDevice& backing, core::SetOptions options = {});
    // Orderly end, then the same again.
    Result<void> stop();
    SetVolume& restart(WatchedDevice& backing, core::SetOptions options = {});
    void crash(sim::CrashKind kind);

    template <class T>
    T run(Task<T> task) {
        std::optional<T> result;
        world.executor().spawn(keep_result(std::move(task), result));
        const sim::Ended ended = world.run_until([&] { return result.has_value(); }, hours(2));
        if (ended != sim::Ended::done) {
            ADD_FAILURE() << "an operation never ends: " << (set ? set->describe() : "no set");
            std::abort();
        }
        return std::move(*result);
    }
    // Lets background work go on.
    void settle(Duration time) {
        world.run_until([] { return false; }, time);
    }
    template <class Predicate>
    bool wait_until(Predicate done, Duration limit) {
        return world.run_until(done, limit) == sim::Ended::done;
    }

    // Writes pattern(version).
    Result<void> write(SetVolume& volume, std::uint64_t sector, std::uint64_t sectors,
                       unsigned version, core::WriteFlags flags = {});
    // The version that all of the range has; 0 if it is all zeroes; -1 if neither.
    int read(SetVolume& volume, std::uint64_t sector, std::uint64_t sectors, unsigned version);
    Result<void> read_result(SetVolume& volume, std::uint64_t sector, std::uint64_t sectors);
    Result<void> flush(SetVolume& volume) { return run(volume.flush()); }
    // Whether the backing device's medium has pattern(version) there.
    bool on_backing(const WatchedDevice& backing, std::uint64_t sector, std::uint64_t sectors,
                    unsigned version, bool durable = false);

    // Superblocks as they would be found after a power cut.
    ondisk::Superblock superblock_of(const WatchedDevice& device) const;
    // Rules of the format that the cache breaks; the set must be stopped or crashed.
    std::vector<std::string> problems() const;
    std::vector<ondisk::UuidEntry> uuid_table() const;

    sim::SimWorld world{1};
    WatchedDevice* cache = nullptr;
    std::unique_ptr<core::CacheSet> set;
    core::Report report;
    CacheShape shape;
    ondisk::Uuid set_uuid;

private:
    template <class T>
    static Task<void> keep_result(Task<T> task, std::optional<T>& out) {
        T result = co_await std::move(task);
        out.emplace(std::move(result));
    }
    WatchedDevice& add_disk(const std::string& name, std::uint64_t sectors, bool discard);
    ondisk::Uuid draw_uuid();

    Rng rng_{7};
    std::vector<std::unique_ptr<WatchedDevice>> devices_;
};

using sim::DiskBytes;

inline std::uint64_t reads_for(const SetVolume& volume, Reason reason) {
    return volume.stats().read_reasons[static_cast<std::size_t>(reason)];
}
inline std::uint64_t writes_for(const SetVolume& volume, Reason reason) {
    return volume.stats().write_reasons[static_cast<std::size_t>(reason)];
}

}  // namespace uc::test
