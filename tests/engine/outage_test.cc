// The cache device goes away and comes back, and users go on with the volumes that they have.
#include "outage_world.h"

namespace uc::test {
namespace {

TEST_F(Outage, ReadOfDirtyDataWaitsAndGoesOnWhenTheDeviceIsBack) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    read_aside(volume, 128, 64);
    world.settle(seconds(10));
    EXPECT_FALSE(read_done.has_value());
    EXPECT_NE(world.set->failure(), "");
    world.cache->heal();
    ASSERT_TRUE(world.wait_until([&] { return read_done.has_value(); }, seconds(10)));
    EXPECT_TRUE(*read_done);
    EXPECT_TRUE(buffer_is(128, 2));
    EXPECT_EQ(world.set->failure(), "");
    EXPECT_EQ(volume.dirty_sectors(), 64u);
    EXPECT_TRUE(world.write(volume, 128, 64, 3));
    EXPECT_TRUE(world.flush(volume));
    EXPECT_EQ(world.read(volume, 128, 64, 3), 3);
    EXPECT_EQ(world.run(world.set->check_invariants()), std::vector<std::string>());
    EXPECT_TRUE(world.run(volume.write_back_all()));
    EXPECT_TRUE(world.on_backing(*backing, 128, 64, 3, true));
}

TEST_F(Outage, RequestsFailAfterTheGraceTimeAndNoneGetsOldData) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    const Instant begin = now();
    const Result<void> read = world.read_result(volume, 128, 64);
    EXPECT_FALSE(read);
    EXPECT_GE(now() - begin, kGrace);
    EXPECT_LT(now() - begin, kGrace + seconds(2));
    const Instant later = now();
    EXPECT_FALSE(world.read_result(volume, 150, 2));
    EXPECT_FALSE(world.write(volume, 120, 16, 3)) << "partly over what is out of reach";
    EXPECT_LT(now() - later, seconds(2)) << "one grace time for the whole outage";
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::dirty);
    EXPECT_EQ(world.superblock_of(*backing).set_uuid, world.set_uuid);
    world.cache->heal();
    ASSERT_TRUE(back_in_service());
    EXPECT_EQ(world.read(volume, 128, 64, 2), 2);
}

TEST_F(Outage, CleanDataAreReadAllAlong) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    read_aside(volume, 128, 64);
    world.settle(seconds(5));
    const Instant begin = now();
    EXPECT_EQ(world.read(volume, 0, 64, 1), 1);
    EXPECT_EQ(world.read(volume, 4096, 64, 0), 0) << "never cached";
    EXPECT_LT(now() - begin, seconds(1));
    EXPECT_FALSE(read_done.has_value());
}

TEST_F(Outage, WriteWaitsAndIsDoneOnTheDeviceThatIsBack) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    const io::Buffer data = pattern(0, 64, 5);
    std::optional<Result<void>> written;
    world.world.executor().spawn(keep(volume.write(0, data.span(), core::WriteFlags()), written));
    world.settle(seconds(5));
    EXPECT_FALSE(written.has_value());
    world.cache->heal();
    ASSERT_TRUE(world.wait_until([&] { return written.has_value(); }, seconds(10)));
    EXPECT_TRUE(*written);
    EXPECT_TRUE(world.flush(volume));
    ASSERT_TRUE(world.stop());
    SetVolume& again = world.start(*backing);
    EXPECT_EQ(world.read(again, 0, 64, 5), 5);
    EXPECT_EQ(world.read(again, 128, 64, 2), 2);
}

TEST_F(Outage, SingleBadSectorIsNoOutage) {
    SetVolume& volume = start_dirty();
    world.cache->disk.add_fault({.sector = 1024, .sectors = 1 << 20, .reads = true});
    const Instant begin = now();
    const Result<void> read = world.read_result(volume, 128, 64);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Errc::data_lost);
    EXPECT_LT(now() - begin, seconds(1)) << "the device is there, waiting would not help";
    EXPECT_EQ(world.set->failure(), "");
}

TEST_F(Outage, DeviceThatIsBackUnderAnotherNameIsFound) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    read_aside(volume, 128, 64);
    world.settle(seconds(3));
    EXPECT_GT(looks, 0u);
    WatchedDevice& other =
        world.put(world.superblock_of(*world.cache), world.cache->size_sectors());
    other.disk.restore(*world.cache->disk.snapshot());
    elsewhere = &other;
    ASSERT_TRUE(world.wait_until([&] { return read_done.has_value(); }, seconds(10)));
    EXPECT_TRUE(*read_done);
    EXPECT_TRUE(buffer_is(128, 2));
    EXPECT_EQ(world.set->cache_name(), other.name());
}

TEST_F(Outage, OlderCopyOfTheDeviceIsNotTaken) {
    SetVolume& volume = start_dirty();
    const auto older = world.cache->disk.snapshot();
    ASSERT_TRUE(world.write(volume, 256, 64, 3));
    ASSERT_TRUE(world.flush(volume));
    ASSERT_TRUE(world.write(volume, 256, 64, 4));
    ASSERT_TRUE(world.flush(volume));
    world.cache->gone = true;
    read_aside(volume, 128, 64);
    world.settle(seconds(3));
    const auto current = world.cache->disk.snapshot();
    world.cache->disk.restore(*older);
    world.cache->heal();
    const std::uint64_t writes = world.cache->writes;
    world.settle(seconds(5));
    EXPECT_FALSE(read_done.has_value());
    EXPECT_EQ(world.cache->writes, writes) << "not a byte is changed";
    EXPECT_NE(world.set->failure().find("older"), std::string::npos) << world.set->failure();
    world.cache->disk.restore(*current);
    ASSERT_TRUE(world.wait_until([&] { return read_done.has_value(); }, seconds(10)));
    EXPECT_EQ(world.read(volume, 256, 64, 4), 4);
}

TEST_F(Outage, WritesThatWereNeverFlushedAreToldOnceAndNeverReadAsOldData) {
    SetVolume& volume = start_dirty();
    ASSERT_TRUE(world.write(volume, 160, 64, 3));  // no flush, and no time for the journal
    world.cache->gone = true;
    read_aside(volume, 128, 8);
    world.settle(seconds(3));
    world.cache->heal();
    ASSERT_TRUE(back_in_service());
    EXPECT_EQ(world.read(volume, 128, 32, 2), 2);
    EXPECT_FALSE(world.read_result(volume, 128, 64)) << "partly lost";
    EXPECT_FALSE(world.read_result(volume, 160, 64));
    EXPECT_FALSE(world.flush(volume)) << "it cannot have the writes before it";
    EXPECT_TRUE(world.flush(volume));
    EXPECT_FALSE(world.read_result(volume, 160, 64));
    EXPECT_TRUE(world.write(volume, 160, 32, 4));
    EXPECT_EQ(world.read(volume, 160, 32, 4), 4);
    EXPECT_FALSE(world.read_result(volume, 192, 8));
}

TEST_F(Outage, VolumeWithoutDirtyDataIsAttachedAgainWhenTheDeviceIsBack) {
    SetVolume& volume = start(CacheMode::writethrough);
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.flush(volume));
    world.settle(seconds(3));
    world.cache->gone = true;
    EXPECT_TRUE(world.write(volume, 0, 64, 2)) << "no error reaches a user";
    EXPECT_EQ(world.read(volume, 0, 64, 2), 2);
    world.settle(seconds(3));
    world.cache->heal();
    ASSERT_TRUE(back_in_service());
    EXPECT_TRUE(volume.attached());
    EXPECT_EQ(volume.state(), BackingState::clean);
    EXPECT_EQ(world.read(volume, 0, 64, 2), 2) << "not what the cache had before";
    EXPECT_TRUE(world.flush(volume)) << "nothing was lost";
    world.settle(seconds(3));
    const std::uint64_t hits = volume.stats().cache_hits;
    EXPECT_EQ(world.read(volume, 0, 64, 2), 2);
    EXPECT_EQ(volume.stats().cache_hits, hits + 1);
}

TEST_F(Outage, BackingDeviceThatFailsAtTheReturnIsTakenALittleLater) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    read_aside(volume, 128, 64);
    world.settle(seconds(3));
    bool failed = false;
    backing->watch = [&](const io::IoRequest& request) {
        backing->fail_writes = request.kind == io::IoKind::flush && !failed;
        failed |= backing->fail_writes;
    };
    world.cache->heal();
    ASSERT_TRUE(world.wait_until([&] { return failed; }, seconds(10)));
    ASSERT_TRUE(world.wait_until([&] { return read_done.has_value(); }, seconds(10)));
    EXPECT_TRUE(*read_done);
    EXPECT_TRUE(buffer_is(128, 2));
    EXPECT_TRUE(world.write(volume, 0, 64, 3));
    EXPECT_EQ(world.set->failure(), "");
}

TEST_F(Outage, FlashOnlyVolumeWaitsAndGoesOn) {
    start();
    const auto created = world.run(world.set->create_flash_volume(1024, "scratch"));
    ASSERT_TRUE(created);
    SetVolume& volume = **created;
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.flush(volume));
    world.cache->gone = true;
    read_aside(volume, 0, 64);
    world.settle(seconds(5));
    EXPECT_FALSE(read_done.has_value());
    world.cache->heal();
    ASSERT_TRUE(world.wait_until([&] { return read_done.has_value(); }, seconds(10)));
    EXPECT_TRUE(*read_done);
    EXPECT_TRUE(buffer_is(0, 1));
}

TEST_F(Outage, StopDoesNotWaitForTheDevice) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    read_aside(volume, 128, 64);
    world.settle(seconds(3));
    const Instant begin = now();
    steady->end_waits();
    ASSERT_TRUE(world.wait_until([&] { return read_done.has_value(); }, seconds(1)));
    EXPECT_FALSE(*read_done);
    (void)world.stop();
    EXPECT_LT(now() - begin, seconds(5));
    world.cache->heal();
    SetVolume& again = world.start(*backing);
    EXPECT_EQ(world.read(again, 128, 64, 2), 2);
}

TEST_F(Outage, DeviceThatComesAndGoesDoesNotHoldRequestsForEver) {
    SetVolume& volume = start_dirty();
    // Answers for its superblock, but no entry of the journal can be written.
    world.cache->fail_writes = true;
    const io::Buffer data = pattern(128, 8, 3);
    core::WriteFlags flags;
    flags.fua = true;
    std::optional<Result<void>> written;
    world.world.executor().spawn(keep(volume.write(128, data.span(), flags), written));
    ASSERT_TRUE(world.wait_until([&] { return written.has_value(); }, minutes(2)));
    EXPECT_FALSE(*written);
    world.cache->heal();
    ASSERT_TRUE(back_in_service());
    EXPECT_EQ(world.read(volume, 136, 56, 2), 2);
}

}  // namespace
}  // namespace uc::test
