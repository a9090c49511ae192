// Each reason why a request is not cached, and that it is counted.
#include "engine_world.h"

namespace uc::test {
namespace {

Task<void> read_aside(SetVolume& volume, std::uint64_t sector, std::span<std::byte> out) {
    const Result<void> done = co_await volume.read(sector, out);
    EXPECT_TRUE(done);
}

Task<void> detach_aside(core::CacheSet& set, SetVolume& volume, std::optional<Result<void>>& out) {
    const Result<void> done = co_await set.detach(volume);
    out = done;
}

class Reasons : public testing::Test {
protected:
    SetVolume& start(CacheMode mode = CacheMode::writeback, CacheShape shape = {}) {
        world.emplace(shape);
        backing = &world->format({.mode = mode, .discard = true});
        return world->start(*backing);
    }
    // Fills the cache with data that nothing can evict, until `full` or until no bucket is left.
    void fill_with_flash_data(std::uint32_t until_percent) {
        const std::uint64_t sectors = world->shape.nbuckets * world->shape.bucket_sectors;
        const auto flash = world->run(world->set->create_flash_volume(sectors, "flash"));
        ASSERT_TRUE(flash);
        for (std::uint64_t at = 0; at + 128 <= sectors; at += 128) {
            if (world->set->in_use_percent() >= until_percent) return;
            if (!world->write(**flash, at, 128, 1)) return;
        }
    }
    void expect_only(SetVolume& volume, Reason reason, std::uint64_t reads, std::uint64_t writes) {
        EXPECT_EQ(reads_for(volume, reason), reads) << core::name_of(reason);
        EXPECT_EQ(writes_for(volume, reason), writes) << core::name_of(reason);
        std::uint64_t counted = 0;
        for (std::size_t i = 0; i < core::kReasons; ++i) {
            counted += volume.stats().read_reasons[i] + volume.stats().write_reasons[i];
        }
        EXPECT_EQ(counted, volume.stats().reads + volume.stats().writes + volume.stats().discards)
            << "every request is counted once";
    }

    std::optional<EngineWorld> world;
    WatchedDevice* backing = nullptr;
};

TEST_F(Reasons, CachedReadsAndWrites) {
    SetVolume& volume = start();
    EXPECT_TRUE(world->write(volume, 0, 8, 1));
    EXPECT_EQ(world->read(volume, 0, 8, 1), 1);
    expect_only(volume, Reason::cached, 1, 1);
}

TEST_F(Reasons, ModeWritearoundBypassesWritesOnly) {
    SetVolume& volume = start(CacheMode::writearound);
    EXPECT_TRUE(world->write(volume, 0, 8, 1));
    EXPECT_EQ(world->read(volume, 0, 8, 1), 1);
    expect_only(volume, Reason::mode, 0, 1);
    EXPECT_EQ(reads_for(volume, Reason::cached), 1u);
}

TEST_F(Reasons, ModeNoneBypassesEverything) {
    SetVolume& volume = start(CacheMode::none);
    EXPECT_TRUE(world->write(volume, 0, 8, 1));
    EXPECT_EQ(world->read(volume, 0, 8, 1), 1);
    world->settle(seconds(3));
    expect_only(volume, Reason::mode, 1, 1);
    EXPECT_EQ(volume.stats().filled_sectors, 0u);
}

TEST_F(Reasons, SequentialRunOfTheCutoffIsBypassed) {
    SetVolume& volume = start();
    volume.options().sequential_cutoff_bytes = 64 << 10;
    for (std::uint64_t at = 0; at < 256; at += 32) EXPECT_TRUE(world->write(volume, at, 32, 1));
    expect_only(volume, Reason::sequential, 0, 5);
    EXPECT_EQ(writes_for(volume, Reason::cached), 3u)
        << "the run reached 128 sectors in the fourth";
    EXPECT_EQ(world->read(volume, 0, 256, 1), 1);
}

TEST_F(Reasons, CongestedCacheIsSparedLongRuns) {
    SetVolume& volume = start(CacheMode::writethrough);
    EXPECT_TRUE(world->write(volume, 0, 128, 1));
    EXPECT_TRUE(world->flush(volume));
    world->settle(seconds(3));
    world->cache->disk.storm(world->world.clock().now() + hours(1), 500);
    for (int i = 0; i < 60; ++i) (void)world->read_result(volume, (i % 16) * 8, 8);
    EXPECT_GT(reads_for(volume, Reason::congested), 0u);
    EXPECT_GT(reads_for(volume, Reason::cached), 0u);
    EXPECT_EQ(volume.stats().reads,
              reads_for(volume, Reason::congested) + reads_for(volume, Reason::cached));
}

TEST_F(Reasons, ThresholdZeroMeansNeverCongested) {
    SetVolume& volume = start(CacheMode::writethrough);
    world->set->options().congested_read_threshold_us = 0;
    world->set->options().congested_write_threshold_us = 0;
    EXPECT_TRUE(world->write(volume, 0, 128, 1));
    world->settle(seconds(3));
    world->cache->disk.storm(world->world.clock().now() + hours(1), 500);
    for (int i = 0; i < 60; ++i) (void)world->read_result(volume, (i % 16) * 8, 8);
    EXPECT_EQ(reads_for(volume, Reason::congested), 0u);
}

TEST_F(Reasons, UnalignedRequestOfWhatIsNotCached) {
    SetVolume& volume = start();
    EXPECT_TRUE(world->write(volume, 3, 2, 1));
    EXPECT_EQ(world->read(volume, 3, 2, 1), 1);
    expect_only(volume, Reason::unaligned, 1, 1);
    EXPECT_TRUE(world->on_backing(*backing, 3, 2, 1));
}

TEST_F(Reasons, FullCacheOfWhatCannotBeEvicted) {
    SetVolume& volume = start();
    fill_with_flash_data(96);
    ASSERT_GT(world->set->in_use_percent(), 95u);
    EXPECT_TRUE(world->write(volume, 0, 8, 1));
    EXPECT_EQ(world->read(volume, 0, 8, 1), 1);
    expect_only(volume, Reason::full, 1, 1);
    EXPECT_TRUE(world->on_backing(*backing, 0, 8, 1));
}

// Faster than buckets can be made ready: what misses then is not kept.
TEST_F(Reasons, NoBucketIsFreeAtOnce) {
    SetVolume& volume = start();
    volume.options().sequential_cutoff_bytes = 0;
    ASSERT_NO_FATAL_FAILURE(fill_with_flash_data(93));
    ASSERT_LE(world->set->in_use_percent(), 95u);
    io::Buffer data(128 * kSectorBytes);
    async::TaskGroup group(world->world.executor());
    for (std::uint64_t i = 0; i < 200; ++i) group.spawn(read_aside(volume, i * 128, data.span()));
    ASSERT_TRUE(world->wait_until([&] { return group.running() == 0; }, hours(1)));
    for (std::uint64_t i = 0; i < 50; ++i) (void)world->read_result(volume, 50000 + i * 128, 128);
    EXPECT_GT(reads_for(volume, Reason::no_bucket), 0u);
    EXPECT_EQ(reads_for(volume, Reason::no_bucket) + reads_for(volume, Reason::cached), 250u);
    EXPECT_EQ(world->read(volume, 0, 128, 0), 0);
}

TEST_F(Reasons, DiscardIsNeverCached) {
    SetVolume& volume = start();
    EXPECT_TRUE(world->write(volume, 0, 64, 1));
    EXPECT_TRUE(world->run(volume.discard(0, 64)));
    expect_only(volume, Reason::discard, 0, 1);
    EXPECT_EQ(volume.dirty_sectors(), 0u);
}

TEST_F(Reasons, DetachingVolumeTakesNothingNew) {
    SetVolume& volume = start();
    EXPECT_TRUE(world->write(volume, 0, 64, 1));
    bool written_back = false;
    backing->watch = [&](const io::IoRequest& request) {
        written_back |= request.kind == io::IoKind::write && request.sector == 16;
    };
    std::optional<Result<void>> detached;
    async::TaskGroup group(world->world.executor());
    group.spawn(detach_aside(*world->set, volume, detached));
    ASSERT_TRUE(world->wait_until([&] { return written_back; }, hours(1)));
    EXPECT_TRUE(world->write(volume, 1024, 64, 2));
    EXPECT_EQ(writes_for(volume, Reason::detaching) + writes_for(volume, Reason::no_set), 1u);
    EXPECT_EQ(writes_for(volume, Reason::detaching), 1u);
    ASSERT_TRUE(world->wait_until([&] { return detached.has_value(); }, hours(1)));
    EXPECT_TRUE(*detached);
    EXPECT_TRUE(world->on_backing(*backing, 1024, 64, 2));
    backing->watch = nullptr;
}

TEST_F(Reasons, VolumeWithoutASetHasItsOwnReason) {
    SetVolume& volume = start();
    ASSERT_TRUE(world->run(world->set->detach(volume)));
    EXPECT_TRUE(world->write(volume, 0, 8, 1));
    EXPECT_EQ(world->read(volume, 0, 8, 1), 1);
    expect_only(volume, Reason::no_set, 1, 1);
    EXPECT_EQ(volume.stats().bypassed_sectors, 16u);
}

TEST(ReasonNames, AreDistinct) {
    for (std::size_t i = 0; i < core::kReasons; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            EXPECT_STRNE(core::name_of(static_cast<Reason>(i)),
                         core::name_of(static_cast<Reason>(j)));
        }
    }
}

}  // namespace
}  // namespace uc::test
