// A set that is opened for reading only: after a crash, with a journal to replay.
#include "engine_world.h"

namespace uc::test {
namespace {

class ReadOnly : public testing::Test {
protected:
    // Version 1 is on the backing device, version 2 in the journal of a set whose process died.
    ReadOnly() : backing(world.format()) {
        SetVolume& volume = world.start(backing);
        EXPECT_TRUE(world.write(volume, 0, 64, 1));
        EXPECT_TRUE(world.run(volume.write_back_all()));
        EXPECT_TRUE(world.write(volume, 0, 32, 2));
        EXPECT_TRUE(world.flush(volume));
        world.crash(sim::CrashKind::process_death);
        backing.writes = backing.flushes = 0;
        world.cache->writes = world.cache->flushes = 0;
        core::SetOptions options;
        options.read_only = true;
        const Result<void> opened = world.open(options);
        EXPECT_TRUE(opened) << world.report.refusal;
        volume_ = *world.add(backing, AttachMode::known);
    }
    SetVolume& volume() { return *volume_; }
    void expect_untouched() const {
        EXPECT_EQ(world.cache->writes, 0u);
        EXPECT_EQ(backing.writes, 0u);
    }

    EngineWorld world;
    WatchedDevice& backing;
    SetVolume* volume_ = nullptr;
};

TEST_F(ReadOnly, ReplaysInMemoryAndWritesNotOneByte) {
    EXPECT_EQ(world.read(volume(), 0, 32, 2), 2);
    EXPECT_EQ(world.read(volume(), 32, 32, 1), 1);
    EXPECT_EQ(world.read(volume(), 4096, 8, 0), 0) << "a miss, which is not filled";
    world.settle(hours(1));
    EXPECT_TRUE(world.stop());
    expect_untouched();
}

TEST_F(ReadOnly, RefusesWhateverWouldChangeSomething) {
    EXPECT_TRUE(volume().read_only());
    const auto refused = [](const Result<void>& result) {
        return !result && result.error().code == Errc::read_only;
    };
    EXPECT_TRUE(refused(world.write(volume(), 0, 8, 3)));
    EXPECT_TRUE(refused(world.run(volume().discard(0, 8))));
    EXPECT_TRUE(refused(world.run(volume().write_zeroes(0, 8, core::WriteFlags()))));
    EXPECT_TRUE(refused(world.run(volume().set_label("x"))));
    EXPECT_TRUE(refused(world.run(volume().set_cache_mode(CacheMode::none))));
    EXPECT_TRUE(refused(world.run(volume().write_back_all())));
    EXPECT_TRUE(refused(world.run(world.set->detach(volume()))));
    EXPECT_TRUE(refused(world.run(world.set->collect_garbage())));
    EXPECT_TRUE(refused(world.run(world.set->set_replacement(ondisk::Replacement::fifo))));
    EXPECT_EQ(world.run(world.set->create_flash_volume(64, "x")).error().code, Errc::read_only);
    EXPECT_TRUE(world.flush(volume())) << "there is nothing to flush";
    expect_untouched();
}

TEST_F(ReadOnly, ReadErrorOfTheCacheDropsNothing) {
    world.cache->fail_reads = true;
    EXPECT_EQ(world.read(volume(), 32, 32, 1), 1) << "clean data, from the backing device";
    EXPECT_EQ(world.read_result(volume(), 0, 32).error().code, Errc::data_lost);
    world.cache->heal();
    EXPECT_EQ(world.read(volume(), 0, 32, 2), 2);
    expect_untouched();
}

TEST_F(ReadOnly, CanBeOpenedForWritingAfterwards) {
    ASSERT_TRUE(world.stop());
    SetVolume& again = world.start(backing);
    EXPECT_EQ(world.read(again, 0, 32, 2), 2);
    EXPECT_EQ(again.dirty_sectors(), 32u);
}

TEST(ReadOnlyBlank, BlankCacheIsRefusedAndStaysBlank) {
    EngineWorld world;
    core::SetOptions options;
    options.read_only = true;
    const Result<void> opened = world.open(options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::read_only);
    EXPECT_EQ(world.cache->writes, 0u);
}

}  // namespace
}  // namespace uc::test
