// What fails, and what a user sees of it: the failure rules of docs/ARCHITECTURE.md.
#include "engine_world.h"

namespace uc::test {
namespace {

class CacheFailure : public testing::Test {
protected:
    // Version 1 of [0, 64) is on the backing device and clean in the cache.
    SetVolume& start_clean(CacheMode mode = CacheMode::writethrough) {
        BackingShape what;
        what.mode = mode;
        backing = &world.format(what);
        SetVolume& volume = world.start(*backing);
        write_through(volume, 1);
        return volume;
    }
    void write_through(SetVolume& volume, unsigned version) {
        const CacheMode mode = volume.cache_mode();
        EXPECT_TRUE(world.run(volume.set_cache_mode(CacheMode::writethrough)));
        EXPECT_TRUE(world.write(volume, 0, 64, version));
        EXPECT_TRUE(world.flush(volume));
        world.settle(seconds(5));
        EXPECT_TRUE(world.run(volume.set_cache_mode(mode)));
        const std::uint64_t hits = volume.stats().cache_hits;
        EXPECT_EQ(world.read(volume, 0, 64, version), static_cast<int>(version));
        EXPECT_EQ(volume.stats().cache_hits, hits + 1) << "the cache has it";
    }
    // Version 1 is on the backing device, version 2 only in the cache.
    SetVolume& start_dirty() {
        SetVolume& volume = start_clean(CacheMode::writeback);
        EXPECT_TRUE(world.write(volume, 0, 64, 2));
        EXPECT_TRUE(world.flush(volume));
        EXPECT_EQ(volume.dirty_sectors(), 64u);
        return volume;
    }

    EngineWorld world;
    WatchedDevice* backing = nullptr;
};

TEST_F(CacheFailure, ReadErrorOfCleanDataIsAnsweredFromBackingAndTheExtentDropped) {
    SetVolume& volume = start_clean();
    world.cache->fail_reads = true;
    EXPECT_EQ(world.read(volume, 8, 16, 1), 1);
    EXPECT_EQ(world.set->stats().cache_io_errors, 1u);
    world.cache->heal();
    const std::uint64_t misses = volume.stats().cache_misses;
    EXPECT_EQ(world.read(volume, 8, 16, 1), 1);
    EXPECT_EQ(volume.stats().cache_misses, misses + 1) << "the bad extent is out of the index";
    const std::uint64_t hits = volume.stats().cache_hits;
    EXPECT_EQ(world.read(volume, 32, 32, 1), 1);
    EXPECT_EQ(volume.stats().cache_hits, hits + 1) << "its neighbours stay";
}

TEST_F(CacheFailure, ReadErrorOfAPartOfABlockDropsTheWholeBlock) {
    SetVolume& volume = start_clean();
    world.cache->fail_reads = true;
    EXPECT_EQ(world.read(volume, 9, 3, 1), 1);
    world.cache->heal();
    SetVolume& again = world.restart(*backing);
    EXPECT_EQ(world.read(again, 0, 64, 1), 1);
}

TEST_F(CacheFailure, ReadErrorOfDirtyDataIsAnErrorAndNeverOldData) {
    SetVolume& volume = start_dirty();
    world.cache->fail_reads = true;
    const Result<void> read = world.read_result(volume, 0, 64);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Errc::data_lost);
    EXPECT_FALSE(world.read_result(volume, 56, 32)) << "partly dirty, partly not cached";
    world.cache->heal();
    EXPECT_EQ(world.read(volume, 0, 64, 2), 2) << "the extent is still there";
}

TEST_F(CacheFailure, DirtyDataThatCannotBeReadStaysDirty) {
    SetVolume& volume = start_dirty();
    world.cache->fail_reads = true;
    EXPECT_FALSE(world.run(volume.write_back_all()));
    EXPECT_EQ(volume.dirty_sectors(), 64u);
    world.cache->heal();
    EXPECT_TRUE(world.run(volume.write_back_all()));
    EXPECT_TRUE(world.on_backing(*backing, 0, 64, 2, true));
}

TEST_F(CacheFailure, WriteErrorOfTheCacheFallsBackToTheBackingDevice) {
    SetVolume& volume = start_clean(CacheMode::writeback);
    world.cache->fail_unforced_writes = true;
    EXPECT_TRUE(world.write(volume, 0, 64, 3));
    EXPECT_TRUE(world.write(volume, 1000, 64, 3));
    EXPECT_TRUE(world.on_backing(*backing, 0, 64, 3));
    EXPECT_EQ(volume.dirty_sectors(), 0u);
    EXPECT_EQ(world.read(volume, 0, 64, 3), 3) << "not the clean copy of version 1";
    EXPECT_TRUE(world.flush(volume));
    EXPECT_EQ(world.set->failure(), "");
    world.cache->heal();
    SetVolume& again = world.restart(*backing);
    EXPECT_EQ(world.read(again, 0, 64, 3), 3);
    EXPECT_EQ(world.read(again, 1000, 64, 3), 3);
}

TEST_F(CacheFailure, WriteErrorOfTheCacheOverDirtyDataReplacesThem) {
    SetVolume& volume = start_dirty();
    world.cache->fail_unforced_writes = true;
    EXPECT_TRUE(world.write(volume, 16, 16, 3));
    EXPECT_EQ(world.read(volume, 16, 16, 3), 3);
    EXPECT_EQ(world.read(volume, 0, 16, 2), 2);
    EXPECT_TRUE(world.flush(volume));
    world.cache->heal();
    SetVolume& again = world.restart(*backing);
    EXPECT_EQ(world.read(again, 16, 16, 3), 3);
    EXPECT_EQ(world.read(again, 32, 32, 2), 2);
    EXPECT_EQ(again.dirty_sectors(), 48u);
}

TEST_F(CacheFailure, FillThatCannotBeWrittenIsForgotten) {
    SetVolume& volume = start_clean();
    world.cache->fail_unforced_writes = true;
    EXPECT_EQ(world.read(volume, 512, 64, 0), 0);
    world.settle(seconds(3));
    EXPECT_EQ(volume.stats().filled_sectors, 64u) << "what start_clean() wrote";
    world.cache->heal();
    EXPECT_EQ(world.read(volume, 512, 64, 0), 0);
}

TEST_F(CacheFailure, SetWithoutDirtyDataGoesOnWithoutACacheThatIsGone) {
    SetVolume& volume = start_clean();
    world.cache->gone = true;
    EXPECT_EQ(world.read(volume, 0, 64, 1), 1);
    EXPECT_TRUE(world.write(volume, 0, 64, 2)) << "no error reaches a user";
    EXPECT_EQ(world.read(volume, 0, 64, 2), 2);
    EXPECT_TRUE(world.write(volume, 4096, 8, 2));
    EXPECT_TRUE(world.flush(volume));
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::stale);
    EXPECT_EQ(volume.state(), BackingState::stale);
    EXPECT_GT(writes_for(volume, Reason::no_set), 0u);
}

TEST_F(CacheFailure, SuperblockSaysStaleBeforeTheFirstWriteThatTheCacheMisses) {
    SetVolume& volume = start_clean();
    world.cache->gone = true;
    bool stale_first = true;
    backing->watch = [&](const io::IoRequest& request) {
        const bool data = request.kind == io::IoKind::write && request.sector >= 16;
        if (data) stale_first &= world.superblock_of(*backing).state() == BackingState::stale;
    };
    EXPECT_TRUE(world.write(volume, 0, 64, 2));
    EXPECT_TRUE(stale_first);
    EXPECT_TRUE(world.on_backing(*backing, 0, 64, 2));
    backing->watch = nullptr;
}

Task<void> write_aside(SetVolume& volume, std::uint64_t sector, const io::Buffer& data,
                       std::optional<Result<void>>& out) {
    const Result<void> done = co_await volume.write(sector, data.span(), core::WriteFlags());
    out = done;
}

// A write that wants to record "dirty" while "stale" is being recorded must not have the last word.
TEST_F(CacheFailure, WriteUnderWayDoesNotOverrideTheStaleState) {
    SetVolume& volume = start_clean(CacheMode::writeback);
    bool leaving = false;
    backing->watch = [&](const io::IoRequest& request) {
        leaving |= request.kind == io::IoKind::write && request.sector == ondisk::kSuperblockSector;
    };
    world.cache->gone = true;
    volume.options().sequential_cutoff_bytes = 4096;  // this write is bypassed
    const io::Buffer first = pattern(0, 64, 2);
    std::optional<Result<void>> bypassed;
    world.world.executor().spawn(write_aside(volume, 0, first, bypassed));
    ASSERT_TRUE(world.wait_until([&] { return leaving; }, seconds(10)));
    backing->watch = nullptr;
    volume.options().sequential_cutoff_bytes = 0;  // this one would be dirty
    EXPECT_TRUE(world.write(volume, 4096, 8, 2));
    ASSERT_TRUE(world.wait_until([&] { return bypassed.has_value(); }, seconds(10)));
    EXPECT_TRUE(*bypassed);
    EXPECT_TRUE(world.flush(volume));
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::stale);
    (void)world.stop();
    world.cache->heal();
    SetVolume& again = world.start(*backing);
    EXPECT_EQ(world.read(again, 0, 64, 2), 2);
    EXPECT_EQ(world.read(again, 4096, 8, 2), 2);
}

TEST_F(CacheFailure, DeviceThatRanAloneNeverSeesOldCachedDataAgain) {
    SetVolume& volume = start_clean();
    const Inode before = volume.inode();
    world.cache->gone = true;
    EXPECT_TRUE(world.write(volume, 0, 64, 2));
    EXPECT_TRUE(world.flush(volume));
    (void)world.stop();
    world.cache->heal();
    SetVolume& again = world.start(*backing);
    EXPECT_NE(again.inode(), before) << "a new index";
    EXPECT_EQ(again.state(), BackingState::clean);
    EXPECT_EQ(world.read(again, 0, 64, 2), 2);
    world.settle(seconds(3));
    EXPECT_EQ(world.read(again, 0, 64, 2), 2);
}

TEST_F(CacheFailure, SetWithDirtyDataRefusesToGoOnWithoutItsCache) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    EXPECT_FALSE(world.read_result(volume, 0, 64));
    (void)world.write(volume, 48, 64, 3);  // may reach the backing device, which is no promise
    EXPECT_FALSE(world.flush(volume)) << "the cache holds a version that would come back";
    EXPECT_FALSE(world.read_result(volume, 0, 64));
    EXPECT_FALSE(world.write(volume, 0, 64, 3));
    EXPECT_FALSE(world.write(volume, 4096, 64, 3));
    EXPECT_TRUE(world.on_backing(*backing, 0, 48, 1)) << "not touched";
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::dirty);
    EXPECT_EQ(world.superblock_of(*backing).set_uuid, world.set_uuid);
    EXPECT_NE(world.set->failure(), "");
}

TEST_F(CacheFailure, DirtyDataAreAllThereWhenTheCacheReturns) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    EXPECT_FALSE(world.read_result(volume, 0, 64));
    (void)world.write(volume, 4096, 64, 3);
    (void)world.flush(volume);
    (void)world.stop();
    world.cache->heal();
    SetVolume& again = world.start(*backing);
    EXPECT_EQ(again.dirty_sectors(), 64u);
    EXPECT_EQ(world.read(again, 0, 64, 2), 2);
    EXPECT_TRUE(world.run(again.write_back_all()));
    EXPECT_TRUE(world.on_backing(*backing, 0, 64, 2, true));
}

// Nothing is out of reach any more, so the volume goes on, and what the cache still holds must
// never come back.
TEST_F(CacheFailure, WriteOverAllDirtyDataSetsTheVolumeFreeOfACacheThatIsGone) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    EXPECT_TRUE(world.write(volume, 0, 64, 3));
    EXPECT_TRUE(world.flush(volume));
    EXPECT_EQ(world.read(volume, 0, 64, 3), 3);
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::stale);
    (void)world.stop();
    world.cache->heal();
    SetVolume& again = world.start(*backing);
    EXPECT_EQ(again.dirty_sectors(), 0u);
    EXPECT_EQ(world.read(again, 0, 64, 3), 3);
}

TEST_F(CacheFailure, FlushOfDirtyDataFailsWhenTheJournalCannotBeWritten) {
    SetVolume& volume = start_clean(CacheMode::writeback);
    EXPECT_TRUE(world.write(volume, 0, 64, 2));
    world.cache->fail_writes = true;
    EXPECT_FALSE(world.flush(volume)) << "the write is not durable";
}

// I1, I2: the device may have dropped what it did not flush, and a later flush hides that.
TEST_F(CacheFailure, NothingIsNamedOnTheDeviceAnyMoreOnceItFailedAFlush) {
    SetVolume& volume = start_clean(CacheMode::writeback);
    world.settle(seconds(60));  // leaves are written
    EXPECT_TRUE(world.write(volume, 0, 64, 2));
    bool failed = false;
    std::uint64_t forced = 0;
    world.cache->watch = [&](const io::IoRequest& request) {
        forced += request.kind == io::IoKind::write && request.fua;
        world.cache->fail_writes = !failed && request.kind == io::IoKind::flush;
        failed |= world.cache->fail_writes;
    };
    EXPECT_FALSE(world.flush(volume));
    ASSERT_TRUE(failed);
    world.settle(seconds(120));  // a leaf would be old enough
    (void)world.stop();
    world.cache->watch = nullptr;
    EXPECT_EQ(forced, 0u);
}

TEST_F(CacheFailure, DetachWithDirtyDataFailsWithoutTheCacheAndKeepsTheAssociation) {
    SetVolume& volume = start_dirty();
    world.cache->gone = true;
    EXPECT_FALSE(world.run(world.set->detach(volume)));
    EXPECT_EQ(world.superblock_of(*backing).state(), BackingState::dirty);
    EXPECT_EQ(world.superblock_of(*backing).set_uuid, world.set_uuid);
}

}  // namespace
}  // namespace uc::test
