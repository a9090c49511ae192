// Write-back: its knobs, its errors, and the state in the backing superblock.
#include "engine_world.h"

namespace uc::test {
namespace {

class WritebackTest : public testing::Test {
protected:
    SetVolume& start() {
        backing = &world.format();
        return world.start(*backing);
    }
    // `pieces` separate dirty extents of 8 sectors.
    void make_dirty(SetVolume& volume, unsigned pieces, unsigned version = 1) {
        for (unsigned i = 0; i < pieces; ++i) {
            ASSERT_TRUE(world.write(volume, i * 64, 8, version));
        }
    }
    void set_running(SetVolume& volume, bool running) {
        volume.options().writeback_running = running;
        volume.options_changed();
    }
    // One batch is under way, no other will follow. `copied`: its extents so far.
    bool begin_batch(SetVolume& volume, const std::uint64_t& copied) {
        volume.options().writeback_percent = 0;  // all in one batch
        set_running(volume, true);
        const bool begun = world.wait_until([&] { return copied >= 60; }, hours(1));
        set_running(volume, false);
        return begun;
    }

    EngineWorld world;
    WatchedDevice* backing = nullptr;
};

TEST_F(WritebackTest, NothingIsWrittenBackWhileItIsNotRunning) {
    SetVolume& volume = start();
    make_dirty(volume, 20);
    world.settle(hours(1));
    EXPECT_EQ(volume.dirty_sectors(), 160u);
    EXPECT_FALSE(world.on_backing(*backing, 0, 8, 1));
    set_running(volume, true);
    EXPECT_TRUE(world.wait_until([&] { return volume.dirty_sectors() == 0; }, hours(1)));
    EXPECT_TRUE(world.on_backing(*backing, 0, 8, 1, true));
}

TEST_F(WritebackTest, PercentZeroWritesBackWithoutPacing) {
    SetVolume& volume = start();
    make_dirty(volume, 200);
    volume.options().writeback_percent = 0;
    const Instant begin = world.world.clock().now();
    set_running(volume, true);
    EXPECT_TRUE(world.wait_until([&] { return volume.dirty_sectors() == 0; }, hours(1)));
    EXPECT_LT(world.world.clock().now() - begin, seconds(2));
}

Task<void> keep(Task<Result<void>> task, bool& ended) {
    const Result<void> done = co_await std::move(task);
    static_cast<void>(done);
    ended = true;
}

// Who destroys a stopped set must not find somebody at work in it.
TEST_F(WritebackTest, SetDoesNotStopUnderAWriteBackOnRequest) {
    SetVolume& volume = start();
    make_dirty(volume, 200);
    bool written = false;
    bool detached = false;
    world.world.executor().spawn(keep(volume.write_back_all(), written));
    world.world.executor().spawn(keep(world.set->detach(volume), detached));
    backing->disk.hang(world.world.clock().now() + minutes(10));
    const std::uint64_t before = backing->writes;
    ASSERT_TRUE(world.wait_until([&] { return backing->writes > before; }, minutes(1)));
    EXPECT_TRUE(world.run(world.set->stop()));
    EXPECT_TRUE(written);
    EXPECT_TRUE(detached);
}

TEST_F(WritebackTest, PacedWritebackKeepsToTheRate) {
    SetVolume& volume = start();
    for (unsigned i = 0; i < 10; ++i) ASSERT_TRUE(world.write(volume, i * 4096, 2048, 1));
    volume.options().writeback_rate_minimum_sectors = 512;
    volume.options().writeback_rate_sectors = 512;
    volume.options().writeback_percent = 99;  // far from its target: the controller stays low
    const Instant begin = world.world.clock().now();
    set_running(volume, true);
    const auto some_written = [&] { return volume.stats().writeback_sectors >= 8192; };
    // Requests of a user keep the set from being called idle.
    bool done = false;
    for (int s = 0; s < 200 && !done; ++s) {
        (void)world.read_result(volume, 100000, 8);
        done = world.wait_until(some_written, seconds(1));
    }
    EXPECT_TRUE(done);
    EXPECT_GE(world.world.clock().now() - begin, seconds(4)) << "8192 sectors at some 512 per s";
}

TEST_F(WritebackTest, RateNeverFallsBelowTheMinimum) {
    SetVolume& volume = start();
    make_dirty(volume, 4);
    volume.options().writeback_rate_minimum_sectors = 777;
    volume.options_changed();
    for (int s = 0; s < 120; ++s) {
        (void)world.read_result(volume, 100000, 8);
        world.settle(seconds(1));
    }
    EXPECT_EQ(volume.options().writeback_rate_sectors, 777u);
}

TEST_F(WritebackTest, SuperblockSaysDirtyBeforeTheFirstDirtyWriteIsAcknowledged) {
    SetVolume& volume = start();
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::clean);
    ASSERT_TRUE(world.write(volume, 0, 8, 1));
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::dirty) << "durably";
    EXPECT_EQ(volume.dirty_sectors(), 8u);
}

TEST_F(WritebackTest, DirtyWriteFailsOverIfTheStateCannotBeRecorded) {
    SetVolume& volume = start();
    backing->fail_writes = true;
    EXPECT_FALSE(world.write(volume, 0, 8, 1));
    EXPECT_EQ(volume.dirty_sectors(), 0u) << "no dirty data while the superblock says clean";
    backing->heal();
    EXPECT_TRUE(world.write(volume, 0, 8, 2));
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::dirty);
    EXPECT_EQ(world.read(volume, 0, 8, 2), 2);
}

TEST_F(WritebackTest, SuperblockSaysCleanOnlyWhenEverythingIsDurableOnTheBackingDevice) {
    SetVolume& volume = start();
    make_dirty(volume, 30);
    std::uint64_t clean_writes = 0;
    backing->watch = [&](const io::IoRequest& request) {
        if (request.kind != io::IoKind::write || request.sector != ondisk::kSuperblockSector)
            return;
        const auto sb = ondisk::parse_superblock({request.data, ondisk::kSuperblockBytes});
        if (sb.state() != BackingState::clean) return;
        ++clean_writes;
        for (unsigned i = 0; i < 30; ++i) {
            EXPECT_TRUE(world.on_backing(*backing, i * 64, 8, 1, true)) << i;
        }
        EXPECT_EQ(backing->disk.unflushed(), 0u);
    };
    set_running(volume, true);
    EXPECT_TRUE(world.wait_until([&] { return volume.state() == BackingState::clean; }, hours(1)));
    world.settle(seconds(1));
    EXPECT_EQ(clean_writes, 1u);
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::clean);
    backing->watch = nullptr;
}

TEST_F(WritebackTest, DirtyBitsAreClearedOnlyAfterAFlushOfTheBackingDevice) {
    SetVolume& volume = start();
    make_dirty(volume, 30);
    set_running(volume, true);
    EXPECT_TRUE(world.wait_until([&] { return volume.dirty_sectors() < 240; }, hours(1)));
    const std::uint64_t clean = (240 - volume.dirty_sectors()) / 8;
    for (unsigned i = 0; i < clean; ++i) {
        EXPECT_TRUE(world.on_backing(*backing, i * 64, 8, 1, true)) << i;
    }
}

TEST_F(WritebackTest, WriteErrorOfTheBackingDeviceKeepsDataDirty) {
    SetVolume& volume = start();
    make_dirty(volume, 10);
    ASSERT_TRUE(world.flush(volume));
    backing->fail_writes = true;
    set_running(volume, true);
    world.settle(minutes(1));
    EXPECT_EQ(volume.dirty_sectors(), 80u);
    EXPECT_GT(volume.stats().writeback_keys_failed, 0u);
    EXPECT_FALSE(world.run(volume.write_back_all()));
    EXPECT_EQ(world.read(volume, 0, 8, 1), 1);
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::dirty);
    backing->heal();
    EXPECT_TRUE(world.run(volume.write_back_all()));
    EXPECT_EQ(volume.dirty_sectors(), 0u);
    for (unsigned i = 0; i < 10; ++i) EXPECT_TRUE(world.on_backing(*backing, i * 64, 8, 1, true));
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::clean);
}

TEST_F(WritebackTest, OverwriteDuringWritebackStaysDirty) {
    SetVolume& volume = start();
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    bool overwritten = false;
    std::optional<Result<void>> second;
    const io::Buffer data = pattern(0, 64, 2);
    // The moment the old version is on its way to the backing device.
    const auto under_way = [&] { return overwritten; };
    backing->watch = [&](const io::IoRequest& request) {
        if (request.kind == io::IoKind::write && request.sector == 16) overwritten = true;
    };
    set_running(volume, true);
    ASSERT_TRUE(world.wait_until(under_way, hours(1)));
    set_running(volume, false);
    ASSERT_TRUE(world.run(volume.write(0, data.span(), core::WriteFlags())));
    world.settle(minutes(1));
    EXPECT_EQ(volume.dirty_sectors(), 64u) << "what was written back is not the newest";
    EXPECT_EQ(world.read(volume, 0, 64, 2), 2);
    backing->watch = nullptr;
}

TEST_F(WritebackTest, DeviceThatRefusesWriteBackIsNamedCountedAndForgotten) {
    SetVolume& volume = start();
    make_dirty(volume, 20);
    EXPECT_EQ(volume.writeback_trouble(), "");
    const std::uint64_t errors = volume.stats().io_errors;
    backing->fail_writes = true;
    const Result<void> failed = world.run(volume.write_back_all());
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().sys, 5) << "the device's own errno";
    EXPECT_GT(volume.stats().io_errors, errors);
    const std::string trouble = volume.writeback_trouble();
    EXPECT_NE(trouble.find("the backing device " + backing->name()), std::string::npos) << trouble;
    EXPECT_NE(trouble.find("Input/output error"), std::string::npos) << trouble;
    backing->heal();
    EXPECT_TRUE(world.run(volume.write_back_all()));
    EXPECT_EQ(volume.writeback_trouble(), "");
}

// Its neighbours are written all the time, which must not hide it.
TEST_F(WritebackTest, OneBadPlaceIsToldUntilItIsMended) {
    SetVolume& volume = start();
    make_dirty(volume, 20);
    volume.options().writeback_percent = 0;
    backing->watch = [&](const io::IoRequest& request) {
        backing->fail_writes = request.kind == io::IoKind::write && request.sector == 16 + 5 * 64;
    };
    set_running(volume, true);
    ASSERT_TRUE(world.wait_until([&] { return volume.dirty_sectors() == 8; }, hours(1)));
    for (unsigned version = 2; version < 6; ++version) {
        EXPECT_TRUE(world.write(volume, 64 * 64, 8, version));
        ASSERT_TRUE(world.wait_until([&] { return volume.dirty_sectors() == 8; }, hours(1)));
        EXPECT_NE(volume.writeback_trouble(), "");
    }
    backing->watch = nullptr;
    backing->heal();
    ASSERT_TRUE(world.wait_until([&] { return volume.dirty_sectors() == 0; }, hours(1)));
    EXPECT_EQ(volume.writeback_trouble(), "");
}

Task<void> zero_aside(SetVolume& volume, std::uint64_t sectors, std::optional<Result<void>>& out) {
    const Result<void> done = co_await volume.write_zeroes(0, sectors, core::WriteFlags());
    out = done;
}

// The backing device has zeroes then, but the write failed and its flush said nothing: the dirty
// extent stays the truth, and must be written once more before it may be called clean.
TEST_F(WritebackTest, FailedWriteToBackingDuringABatchKeepsTheExtentDirty) {
    SetVolume& volume = start();
    make_dirty(volume, 300);
    std::uint64_t copied = 0;
    backing->watch = [&](const io::IoRequest& request) {
        copied += request.kind == io::IoKind::write;
        backing->fail_writes = request.kind == io::IoKind::write_zeroes;
        if (!backing->fail_writes) return;
        // It has done its work and fails all the same.
        const std::vector<std::byte> zeroes(request.sectors * kSectorBytes);
        backing->disk.poke(request.sector, zeroes);
    };
    ASSERT_TRUE(begin_batch(volume, copied));
    ASSERT_TRUE(world.on_backing(*backing, 0, 8, 1)) << "the batch has passed it";
    std::optional<Result<void>> done;
    world.world.executor().spawn(zero_aside(volume, 8, done));
    ASSERT_TRUE(world.wait_until([&] { return done.has_value(); }, hours(1)));
    EXPECT_FALSE(*done);
    EXPECT_LT(copied, 300u) << "the batch is still under way";
    backing->watch = nullptr;
    backing->heal();
    ASSERT_TRUE(world.wait_until([&] { return volume.dirty_sectors() <= 8; }, hours(1)));
    EXPECT_EQ(volume.dirty_sectors(), 8u);
    ASSERT_TRUE(world.run(volume.write_back_all()));
    EXPECT_TRUE(world.on_backing(*backing, 0, 8, 1, true));
}

// A device that has failed a flush may drop what it held and let the next flush succeed.
TEST_F(WritebackTest, FlushThatFailedForAUserDuringABatchKeepsTheBatchDirty) {
    SetVolume& volume = start();
    make_dirty(volume, 300);
    std::uint64_t copied = 0;
    backing->watch = [&](const io::IoRequest& request) {
        copied += request.kind == io::IoKind::write;
    };
    ASSERT_TRUE(begin_batch(volume, copied));
    backing->fail_writes = true;
    (void)world.run(volume.flush());
    ASSERT_LT(copied, 300u) << "the batch is still under way";
    const std::uint64_t flushes = backing->flushes;
    backing->heal();
    ASSERT_TRUE(world.wait_until([&] { return backing->flushes > flushes; }, hours(1)));
    ASSERT_TRUE(world.run(volume.flush()));
    EXPECT_EQ(volume.dirty_sectors(), 300u * 8) << "no extent of the batch was marked clean";
    ASSERT_TRUE(world.run(volume.write_back_all()));
    EXPECT_EQ(volume.dirty_sectors(), 0u);
}

TEST_F(WritebackTest, DirtyDataSurviveARestart) {
    SetVolume& volume = start();
    make_dirty(volume, 50);
    SetVolume& again = world.restart(*backing);
    EXPECT_EQ(again.dirty_sectors(), 400u);
    EXPECT_EQ(again.state(), BackingState::dirty);
    for (unsigned i = 0; i < 50; ++i) EXPECT_EQ(world.read(again, i * 64, 8, 1), 1);
}

TEST_F(WritebackTest, FlushedDirtyDataSurviveAPowerCut) {
    SetVolume& volume = start();
    make_dirty(volume, 50);
    ASSERT_TRUE(world.flush(volume));
    world.crash(sim::CrashKind::power_cut);
    EXPECT_EQ(world.problems(), std::vector<std::string>());
    SetVolume& again = world.start(*backing);
    for (unsigned i = 0; i < 50; ++i) EXPECT_EQ(world.read(again, i * 64, 8, 1), 1);
}

}  // namespace
}  // namespace uc::test
