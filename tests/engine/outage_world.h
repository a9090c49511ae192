// A set whose devices go away and come back, and a user who goes on with the volume that they have.
#pragma once

#include "core/steady_set.h"

#include "engine_world.h"

namespace uc::test {

inline constexpr Duration kGrace = seconds(30);

class Outage : public testing::Test {
protected:
    explicit Outage(CacheShape shape = {}) : world(shape) {}

    using Device = core::SteadySet::Device;

    // Not owned by the set.
    static Device share(WatchedDevice& device) {
        return Device(&device, [](io::BlockDevice*) {});
    }
    Task<Result<Device>> find(const ondisk::Superblock& wanted, const std::string&) {
        ++looks;
        if (wanted.is_backing() && backing_elsewhere != nullptr)
            co_return share(*backing_elsewhere);
        if (wanted.is_cache() && elsewhere != nullptr) co_return share(*elsewhere);
        co_return fail(Errc::not_found, "there is no such device");
    }
    SetVolume& start(CacheMode mode = CacheMode::writeback, core::SetOptions options = {}) {
        backing = &world.format({.mode = mode});
        const core::Env env{world.world.executor(), world.world.clock(), rng};
        const auto look = [this](const ondisk::Superblock& wanted, const std::string& name) {
            return find(wanted, name);
        };
        const auto log = [this](const std::string& line) { lines.push_back(line); };
        auto opened = world.run(
            core::SteadySet::open(env, share(*world.cache), options, look, log, world.report));
        EXPECT_TRUE(opened) << world.report.refusal;
        steady = opened->get();
        world.set = std::move(*opened);
        const auto added = world.add(*backing);
        EXPECT_TRUE(added) << world.report.refusal;
        return **added;
    }
    // Version 1 of [0, 64) is clean in the cache, version 2 of [128, 192) dirty and flushed.
    SetVolume& start_dirty() {
        SetVolume& volume = start();
        EXPECT_TRUE(world.write(volume, 0, 64, 1));
        EXPECT_TRUE(world.run(volume.write_back_all()));
        EXPECT_TRUE(world.write(volume, 128, 64, 2));
        EXPECT_TRUE(world.flush(volume));
        return volume;
    }
    Instant now() { return world.world.clock().now(); }
    // In the background; the result comes when it comes.
    void read_aside(SetVolume& volume, std::uint64_t sector, std::uint64_t sectors) {
        buffer = io::Buffer(sectors * kSectorBytes);
        read_done.reset();
        world.world.executor().spawn(keep(volume.read(sector, buffer.span()), read_done));
    }
    static Task<void> keep(Task<Result<void>> task, std::optional<Result<void>>& out) {
        const Result<void> done = co_await std::move(task);
        out = done;
    }
    bool buffer_is(std::uint64_t sector, unsigned version) {
        const io::Buffer wanted = pattern(sector, buffer.size() / kSectorBytes, version);
        return std::ranges::equal(buffer.span(), wanted.span());
    }
    bool back_in_service() {
        return world.wait_until([&] { return world.set->failure().empty(); }, minutes(1));
    }

    EngineWorld world;
    Rng rng{3};
    core::SteadySet* steady = nullptr;
    WatchedDevice* backing = nullptr;
    WatchedDevice* elsewhere = nullptr;
    WatchedDevice* backing_elsewhere = nullptr;
    std::uint64_t looks = 0;
    std::vector<std::string> lines;
    io::Buffer buffer;
    std::optional<Result<void>> read_done;
};

}  // namespace uc::test
