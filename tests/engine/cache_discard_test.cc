// Discards of the cache device: only where its superblock says so, never of anything in use, and
// whatever the device answers for discarded ranges afterwards.
#include "engine_world.h"

namespace uc::test {
namespace {

class CacheDiscard : public testing::Test {
protected:
    struct Range {
        std::uint64_t sector = 0;
        std::uint64_t sectors = 0;
        unsigned looks = 0;
    };

    CacheDiscard() : backing(world.format({.sectors = kSectors})) {
        sim::SimDiskOptions options;
        options.name = "trimmed";
        options.sectors = world.cache->size_sectors();
        options.supports_discard = true;
        device.emplace(world.world.add_disk(options));
        std::array<std::byte, ondisk::kSuperblockBytes> bytes;
        world.cache->disk.peek(ondisk::kSuperblockSector, bytes);
        device->disk.poke(ondisk::kSuperblockSector, bytes);
        world.cache = &*device;
        device->watch = [this](const io::IoRequest& request) { look(request); };
    }

    void switch_on() {
        ondisk::Superblock sb = world.superblock_of(*device);
        sb.set_discard(true);
        device->disk.poke(ondisk::kSuperblockSector, ondisk::encode_superblock(sb));
    }
    void look(const io::IoRequest& request) {
        if (request.kind != io::IoKind::discard) return;
        ++discards;
        EXPECT_GE(request.sector, 6 * world.shape.bucket_sectors) << "superblock or journal";
        if (returns_garbage) discarded.push_back({request.sector, request.sectors, 8});
    }
    // More than the cache holds, several times.
    void churn(SetVolume& volume, unsigned version) {
        for (std::uint64_t at = 0; at < kSectors; at += 16) {
            ASSERT_TRUE(world.write(volume, at, 16, version));
            std::erase_if(discarded, [this](Range& range) { return spoil(range); });
        }
        world.settle(seconds(1));
    }
    // Once the discard is done, and before anybody has written there again.
    bool spoil(Range& range) {
        std::vector<std::byte> bytes(range.sectors * kSectorBytes);
        device->disk.peek(range.sector, bytes);
        const auto zero = [](std::byte b) { return b == std::byte{}; };
        if (!std::ranges::all_of(bytes, zero)) return --range.looks == 0;
        std::ranges::fill(bytes, std::byte{0xd5});
        device->disk.poke(range.sector, bytes);
        ++spoiled;
        return true;
    }
    void use_and_crash() {
        SetVolume& volume = world.start(backing);
        volume.options().sequential_cutoff_bytes = 0;
        ASSERT_TRUE(world.run(volume.set_cache_mode(CacheMode::writethrough)));
        for (unsigned version = 1; version <= 2; ++version) churn(volume, version);
        ASSERT_TRUE(world.run(volume.set_cache_mode(CacheMode::writeback)));
        ASSERT_TRUE(world.write(volume, 640, 64, 3));
        ASSERT_TRUE(world.flush(volume));
        world.crash(sim::CrashKind::power_cut);
        SetVolume& again = world.start(backing);
        for (std::uint64_t at = 0; at < kSectors; at += 64) {
            const unsigned version = at == 640 ? 3 : 2;
            ASSERT_EQ(world.read(again, at, 64, version), static_cast<int>(version)) << at;
        }
        EXPECT_TRUE(world.stop());
        EXPECT_EQ(world.problems(), std::vector<std::string>());
    }

    static constexpr std::uint64_t kSectors = 1 << 17;
    EngineWorld world;
    WatchedDevice& backing;
    std::optional<WatchedDevice> device;
    std::uint64_t discards = 0;
    bool returns_garbage = false;
    std::vector<Range> discarded;
    std::uint64_t spoiled = 0;
};

TEST_F(CacheDiscard, IsOffByDefault) {
    ASSERT_NO_FATAL_FAILURE(use_and_crash());
    EXPECT_GT(world.superblock_of(*device).seq, 0u);
    EXPECT_EQ(discards, 0u);
}

TEST_F(CacheDiscard, OfADeviceThatReturnsZeroesHarmsNothing) {
    switch_on();
    ASSERT_NO_FATAL_FAILURE(use_and_crash());
    EXPECT_GT(discards, 0u);
}

TEST_F(CacheDiscard, OfADeviceThatReturnsGarbageHarmsNothing) {
    switch_on();
    returns_garbage = true;
    ASSERT_NO_FATAL_FAILURE(use_and_crash());
    EXPECT_GT(spoiled, 0u);
}

// As if it had not been told.
class DeafDevice final : public io::BlockDevice {
public:
    explicit DeafDevice(io::BlockDevice& below) : below_(below) {}
    bool submit(io::IoRequest* request) override {
        if (request->kind != io::IoKind::discard) return below_.submit(request);
        ++discards;
        if (refuse) {
            request->fail({Errc::unsupported, 95, "no discard after all"});
        } else {
            request->succeed();
        }
        return true;
    }
    std::uint64_t size_sectors() const override { return below_.size_sectors(); }
    std::uint32_t logical_block_sectors() const override { return 1; }
    bool supports_discard() const override { return true; }
    const std::string& name() const override { return below_.name(); }

    std::uint64_t discards = 0;
    bool refuse = false;

private:
    io::BlockDevice& below_;
};

TEST_F(CacheDiscard, OfADeviceThatKeepsOldDataOrRefusesHarmsNothing) {
    switch_on();
    DeafDevice deaf(*device);
    const core::Env env{world.world.executor(), world.world.clock(), world.world.rng()};
    for (const bool refuse : {false, true}) {
        deaf.refuse = refuse;
        deaf.discards = 0;
        auto opened = world.run(core::CacheSet::open(env, deaf, core::SetOptions(), world.report));
        ASSERT_TRUE(opened) << world.report.refusal;
        world.set = std::move(*opened);
        SetVolume& volume = **world.add(backing);
        volume.options().sequential_cutoff_bytes = 0;
        ASSERT_TRUE(world.run(volume.set_cache_mode(CacheMode::writethrough)));
        const unsigned version = refuse ? 4 : 3;
        ASSERT_NO_FATAL_FAILURE(churn(volume, 1));
        ASSERT_NO_FATAL_FAILURE(churn(volume, version));
        EXPECT_GT(deaf.discards, 0u);
        EXPECT_EQ(world.set->failure(), "");
        ASSERT_TRUE(world.flush(volume));
        world.crash(sim::CrashKind::power_cut);
        SetVolume& again = world.start(backing);
        for (std::uint64_t at = 0; at < kSectors; at += 64) {
            ASSERT_EQ(world.read(again, at, 64, version), static_cast<int>(version)) << at;
        }
        EXPECT_TRUE(world.stop());
        EXPECT_EQ(world.problems(), std::vector<std::string>());
    }
}

}  // namespace
}  // namespace uc::test
