// A backing device goes away and comes back; the set goes on meanwhile.
#include "outage_world.h"

namespace uc::test {
namespace {

class BackingOutage : public Outage {
protected:
    void write_aside(SetVolume& volume, std::uint64_t sector, const io::Buffer& data) {
        write_done.reset();
        world.world.executor().spawn(
            keep(volume.write(sector, data.span(), core::WriteFlags()), write_done));
    }
    bool away() { return !world.set->failure().empty(); }

    std::optional<Result<void>> write_done;
};

TEST_F(BackingOutage, HitsAndDirtyWritesGoOnAndMissesWait) {
    SetVolume& volume = start_dirty();
    backing->gone = true;
    read_aside(volume, 4096, 64);
    world.settle(seconds(5));
    EXPECT_FALSE(read_done.has_value());
    EXPECT_TRUE(away());
    EXPECT_EQ(world.read(volume, 0, 64, 1), 1);
    EXPECT_EQ(world.read(volume, 128, 64, 2), 2);
    EXPECT_TRUE(world.write(volume, 512, 64, 3));
    EXPECT_TRUE(world.flush(volume));
    EXPECT_EQ(world.read(volume, 512, 64, 3), 3);
    backing->heal();
    ASSERT_TRUE(world.wait_until([&] { return read_done.has_value(); }, seconds(10)));
    EXPECT_TRUE(*read_done);
    EXPECT_FALSE(away());
    EXPECT_TRUE(world.run(volume.write_back_all()));
    EXPECT_TRUE(world.on_backing(*backing, 512, 64, 3, true));
}

TEST_F(BackingOutage, RequestsFailAfterTheGraceTimeAndDirtyDataStay) {
    SetVolume& volume = start_dirty();
    backing->gone = true;
    const Instant begin = now();
    EXPECT_FALSE(world.read_result(volume, 4096, 64));
    EXPECT_GE(now() - begin, kGrace);
    EXPECT_EQ(volume.dirty_sectors(), 64u);
    EXPECT_EQ(world.read(volume, 128, 64, 2), 2);
}

TEST_F(BackingOutage, DeviceIsTakenUnderAnotherNameByItsUuid) {
    SetVolume& volume = start_dirty();
    backing->gone = true;
    read_aside(volume, 4096, 64);
    world.settle(seconds(3));
    WatchedDevice& other = world.put(world.superblock_of(*backing), backing->size_sectors());
    other.disk.restore(*backing->disk.snapshot());
    backing_elsewhere = &other;
    ASSERT_TRUE(world.wait_until([&] { return read_done.has_value(); }, seconds(10)));
    EXPECT_TRUE(*read_done);
    EXPECT_EQ(volume.backing_name(), other.name());
    EXPECT_TRUE(world.run(volume.write_back_all()));
    EXPECT_TRUE(world.on_backing(other, 128, 64, 2, true));
}

TEST_F(BackingOutage, SuperblockThatCouldNotBeWrittenDoesNotMakeTheDeviceAStranger) {
    SetVolume& volume = start();
    world.settle(seconds(3));
    ASSERT_EQ(volume.state(), BackingState::clean);
    backing->gone = true;
    const io::Buffer data = pattern(0, 64, 1);
    write_aside(volume, 0, data);  // the first dirty one: the superblock is to say so
    world.settle(seconds(3));
    EXPECT_FALSE(write_done.has_value());
    backing->heal();
    ASSERT_TRUE(world.wait_until([&] { return write_done.has_value(); }, seconds(10)))
        << world.set->failure();
    EXPECT_TRUE(*write_done);
    EXPECT_FALSE(away());
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::dirty);
}

TEST_F(BackingOutage, DeviceThatSomebodyElseHasUsedIsNotTaken) {
    SetVolume& volume = start_dirty();
    backing->gone = true;
    read_aside(volume, 4096, 64);
    world.settle(seconds(3));
    ondisk::Superblock sb = world.superblock_of(*backing);
    sb.set_state(BackingState::clean);
    WatchedDevice& other = world.put(sb, backing->size_sectors());
    backing_elsewhere = &other;
    const std::uint64_t writes = other.writes;
    world.settle(seconds(5));
    EXPECT_FALSE(read_done.has_value());
    EXPECT_NE(world.set->failure().find("somebody else"), std::string::npos)
        << world.set->failure();
    EXPECT_EQ(other.writes, writes);
    EXPECT_EQ(volume.dirty_sectors(), 64u);
}

TEST_F(BackingOutage, DeviceOfAnotherSizeIsNotTaken) {
    SetVolume& volume = start_dirty();
    backing->gone = true;
    read_aside(volume, 4096, 64);
    world.settle(seconds(3));
    backing_elsewhere = &world.put(world.superblock_of(*backing), backing->size_sectors() + 8);
    world.settle(seconds(5));
    EXPECT_FALSE(read_done.has_value());
    EXPECT_NE(world.set->failure().find("size"), std::string::npos) << world.set->failure();
}

// The device loses power: what it had not made durable is gone, though the writes had gone well.
TEST_F(BackingOutage, WritebackThatTheDeviceForgotIsDoneOnceMore) {
    SetVolume& volume = start_dirty();
    ASSERT_TRUE(world.write(volume, 1024, 64, 3));
    bool lost = false;
    backing->watch = [&](const io::IoRequest& request) {
        // After the data, before the flush that would cover them.
        if (request.kind == io::IoKind::flush && !lost) {
            lost = true;
            backing->disk.crash(sim::CrashKind::power_cut);
            backing->gone = true;
        }
    };
    EXPECT_FALSE(world.run(volume.write_back_all()));
    EXPECT_TRUE(lost);
    backing->watch = nullptr;
    read_aside(volume, 4096, 8);
    world.settle(seconds(2));
    backing->heal();
    ASSERT_TRUE(world.wait_until([&] { return read_done.has_value(); }, seconds(10)));
    EXPECT_EQ(volume.dirty_sectors(), 128u);
    EXPECT_TRUE(world.flush(volume)) << "no data of a user was lost";
    (void)world.run(volume.write_back_all());
    EXPECT_TRUE(world.run(volume.write_back_all()));
    EXPECT_TRUE(world.on_backing(*backing, 128, 64, 2, true));
    EXPECT_TRUE(world.on_backing(*backing, 1024, 64, 3, true));
}

TEST_F(BackingOutage, WritethroughThatTheDeviceForgotIsToldByTheNextFlush) {
    SetVolume& volume = start(CacheMode::writethrough);
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.flush(volume));
    ASSERT_TRUE(world.write(volume, 0, 64, 2));
    backing->disk.crash(sim::CrashKind::power_cut);
    backing->gone = true;
    read_aside(volume, 4096, 8);
    world.settle(seconds(3));
    backing->heal();
    ASSERT_TRUE(world.wait_until([&] { return read_done.has_value(); }, seconds(10)));
    EXPECT_FALSE(world.flush(volume));
    EXPECT_TRUE(world.flush(volume));
    const std::uint64_t hits = volume.stats().cache_hits;
    const Result<void> read = world.read_result(volume, 0, 64);
    EXPECT_TRUE(read);
    EXPECT_EQ(volume.stats().cache_hits, hits) << "the cache does not have what the device lost";
}

TEST_F(BackingOutage, WritebackNoticesTheAbsenceByItself) {
    SetVolume& volume = start_dirty();
    backing->gone = true;
    volume.options().writeback_running = true;
    volume.options().writeback_percent = 0;
    volume.options_changed();
    ASSERT_TRUE(world.wait_until([&] { return away(); }, minutes(1)));
    backing->heal();
    ASSERT_TRUE(world.wait_until([&] { return volume.dirty_sectors() == 0; }, minutes(1)));
    EXPECT_TRUE(world.on_backing(*backing, 128, 64, 2, true));
}

TEST_F(BackingOutage, BothDevicesMayBeAway) {
    SetVolume& volume = start_dirty();
    backing->gone = true;
    world.cache->gone = true;
    read_aside(volume, 128, 64);
    world.settle(seconds(3));
    world.cache->heal();
    world.settle(seconds(3));
    backing->heal();
    ASSERT_TRUE(world.wait_until([&] { return read_done.has_value(); }, seconds(20)));
    EXPECT_TRUE(*read_done);
    EXPECT_TRUE(buffer_is(128, 2));
    EXPECT_EQ(world.set->failure(), "");
    EXPECT_TRUE(world.run(volume.write_back_all()));
    EXPECT_TRUE(world.on_backing(*backing, 128, 64, 2, true));
}

}  // namespace
}  // namespace uc::test
