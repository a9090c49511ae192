// Who may join a set and what leaving it means (format section 7.9).
#include <algorithm>
#include <set>

#include "core/labels.h"
#include "engine_world.h"

namespace uc::test {
namespace {

class Attach : public testing::Test {
protected:
    static ondisk::Uuid uuid_of(std::uint8_t byte) {
        ondisk::Uuid uuid;
        uuid.bytes.fill(byte);
        return uuid;
    }
    static ondisk::Superblock backing_superblock() {
        ondisk::Superblock sb;
        sb.version = 1;
        sb.uuid = uuid_of(0x42);
        sb.block_size = 8;
        sb.set_cache_mode(CacheMode::writeback);
        return sb;
    }
    static constexpr std::uint64_t kSectors = 1 << 16;

    // Refused, with a line for the user, and not one byte changed.
    void expect_refused(WatchedDevice& backing, AttachMode mode, Errc code) {
        const std::uint64_t before = backing.writes + world.cache->writes;
        const auto added = world.add(backing, mode);
        ASSERT_FALSE(added);
        EXPECT_EQ(added.error().code, code) << world.report.refusal;
        EXPECT_NE(world.report.refusal.find(backing.name()), std::string::npos)
            << world.report.refusal;
        EXPECT_EQ(backing.writes + world.cache->writes, before);
    }

    EngineWorld world;
};

TEST_F(Attach, NewDeviceIsRecordedInTheTableBeforeItsSuperblockNamesTheSet) {
    WatchedDevice& backing = world.format();
    ASSERT_TRUE(world.open());
    std::uint64_t entries = 0;
    backing.watch = [&](const io::IoRequest& request) {
        if (request.kind != io::IoKind::write) return;
        for (const ondisk::UuidEntry& entry : world.uuid_table()) entries += !entry.is_free();
    };
    const auto added = world.add(backing);
    backing.watch = nullptr;
    ASSERT_TRUE(added);
    EXPECT_EQ(entries, 1u);
    EXPECT_EQ(world.superblock_of(backing).state(), BackingState::clean);
    EXPECT_EQ(world.superblock_of(backing).set_uuid, world.set_uuid);
}

TEST_F(Attach, DeviceOfNoSetRunsWithoutACacheUntilItIsAttached) {
    WatchedDevice& backing = world.format();
    ASSERT_TRUE(world.open());
    const auto added = world.add(backing, AttachMode::known);
    ASSERT_TRUE(added);
    EXPECT_EQ((*added)->state(), BackingState::none);
    EXPECT_TRUE(world.write(**added, 0, 8, 1));
    EXPECT_EQ(world.read(**added, 0, 8, 1), 1);
    EXPECT_TRUE(world.flush(**added));
    EXPECT_EQ(writes_for(**added, Reason::no_set), 1u);
    EXPECT_EQ(reads_for(**added, Reason::no_set), 1u);
    EXPECT_TRUE(world.on_backing(backing, 0, 8, 1, true));
    EXPECT_TRUE(world.superblock_of(backing).set_uuid.is_zero());
}

TEST_F(Attach, KnownDeviceKeepsItsIndexAndItsData) {
    WatchedDevice& backing = world.format();
    SetVolume& volume = world.start(backing);
    const Inode inode = volume.inode();
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.stop());
    ASSERT_TRUE(world.open());
    const auto again = world.add(backing, AttachMode::known);
    ASSERT_TRUE(again);
    EXPECT_EQ((*again)->inode(), inode);
    EXPECT_EQ(world.read(**again, 0, 64, 1), 1);
}

TEST_F(Attach, DirtyDeviceThatTheSetDoesNotKnowIsRefused) {
    ondisk::Superblock sb = backing_superblock();
    sb.set_uuid = world.set_uuid;
    sb.set_state(BackingState::dirty);
    WatchedDevice& backing = world.put(sb, kSectors);
    ASSERT_TRUE(world.open());
    expect_refused(backing, AttachMode::known, Errc::not_found);
    expect_refused(backing, AttachMode::attach, Errc::not_found);
}

TEST_F(Attach, DeviceOfAnotherSetIsRefused) {
    for (const BackingState state : {BackingState::clean, BackingState::dirty}) {
        ondisk::Superblock sb = backing_superblock();
        sb.uuid = uuid_of(static_cast<std::uint8_t>(state));
        sb.set_uuid = uuid_of(0x99);
        sb.set_state(state);
        WatchedDevice& backing = world.put(sb, kSectors);
        if (!world.set) {
            ASSERT_TRUE(world.open());
        }
        expect_refused(backing, AttachMode::known, Errc::invalid);
        expect_refused(backing, AttachMode::attach, Errc::invalid);
    }
}

TEST_F(Attach, StaleDeviceOfAnotherSetMayBeAttached) {
    ondisk::Superblock sb = backing_superblock();
    sb.set_uuid = uuid_of(0x99);
    sb.set_state(BackingState::stale);
    WatchedDevice& backing = world.put(sb, kSectors);
    ASSERT_TRUE(world.open());
    ASSERT_TRUE(world.add(backing, AttachMode::attach)) << world.report.refusal;
    EXPECT_EQ(world.superblock_of(backing).set_uuid, world.set_uuid);
}

TEST_F(Attach, StaleDeviceGetsANewIndexAndNeverItsOldCachedData) {
    WatchedDevice& backing = world.format({.mode = CacheMode::writethrough});
    SetVolume& volume = world.start(backing);
    const Inode inode = volume.inode();
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.flush(volume));
    world.settle(seconds(3));
    ASSERT_TRUE(world.stop());
    // Somebody ran it alone meanwhile.
    ondisk::Superblock sb = world.superblock_of(backing);
    sb.set_state(BackingState::stale);
    backing.disk.poke(ondisk::kSuperblockSector, ondisk::encode_superblock(sb));
    backing.disk.poke(sb.data_offset(), pattern(0, 64, 2).span());
    SetVolume& again = world.start(backing);
    EXPECT_NE(again.inode(), inode);
    EXPECT_EQ(world.read(again, 0, 64, 2), 2);
    ASSERT_TRUE(world.stop());
    EXPECT_EQ(world.problems(), std::vector<std::string>());
    const auto table = world.uuid_table();
    EXPECT_EQ(table[inode].uuid, ondisk::kInvalidatedUuid);
    EXPECT_NE(table[inode].invalidated, 0u);
}

TEST_F(Attach, SecondDeviceWithTheSameUuidIsRefused) {
    const ondisk::Superblock sb = backing_superblock();
    WatchedDevice& first = world.put(sb, kSectors);
    WatchedDevice& second = world.put(sb, kSectors);
    ASSERT_TRUE(world.open());
    ASSERT_TRUE(world.add(first));
    expect_refused(second, AttachMode::attach, Errc::busy);
}

TEST_F(Attach, BlockSizeSmallerThanTheSetsIsRefused) {
    ondisk::Superblock sb = backing_superblock();
    sb.block_size = 1;
    WatchedDevice& backing = world.put(sb, kSectors);
    ASSERT_TRUE(world.open());
    expect_refused(backing, AttachMode::attach, Errc::invalid);
}

TEST_F(Attach, CacheDeviceIsNoBackingDevice) {
    WatchedDevice& backing = world.format();
    ondisk::Superblock sb = world.superblock_of(*world.cache);
    backing.disk.poke(ondisk::kSuperblockSector, ondisk::encode_superblock(sb));
    ASSERT_TRUE(world.open());
    expect_refused(backing, AttachMode::attach, Errc::invalid);
}

TEST_F(Attach, DamagedSuperblockIsRefused) {
    WatchedDevice& backing = world.format();
    ASSERT_TRUE(world.open());
    io::Buffer bytes(ondisk::kSuperblockBytes);
    backing.disk.peek(ondisk::kSuperblockSector, bytes.span());
    bytes.data()[100] ^= std::byte{1};
    backing.disk.poke(ondisk::kSuperblockSector, bytes.span());
    expect_refused(backing, AttachMode::attach, Errc::corrupt);
}

TEST_F(Attach, DetachWritesBackAndLeavesADeviceThatIsFree) {
    WatchedDevice& backing = world.format();
    SetVolume& volume = world.start(backing);
    const Inode inode = volume.inode();
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.run(world.set->detach(volume)));
    EXPECT_TRUE(world.on_backing(backing, 0, 64, 1, true));
    EXPECT_EQ(world.superblock_of(backing).state(), BackingState::none);
    EXPECT_TRUE(world.superblock_of(backing).set_uuid.is_zero());
    EXPECT_TRUE(world.write(volume, 0, 64, 2)) << "it goes on without a cache";
    EXPECT_EQ(world.read(volume, 0, 64, 2), 2);
    EXPECT_TRUE(world.on_backing(backing, 0, 64, 2));
    EXPECT_EQ(writes_for(volume, Reason::no_set), 1u);
    EXPECT_FALSE(world.run(world.set->detach(volume))) << "it is not attached any more";
    ASSERT_TRUE(world.stop());
    const auto table = world.uuid_table();
    EXPECT_EQ(table[inode].uuid, ondisk::kInvalidatedUuid);
    EXPECT_NE(table[inode].invalidated, 0u);
    EXPECT_EQ(world.problems(), std::vector<std::string>());
}

TEST_F(Attach, ThreeCyclesUseThreeIndices) {
    WatchedDevice& backing = world.format();
    std::set<Inode> inodes;
    for (unsigned cycle = 1; cycle <= 3; ++cycle) {
        SetVolume& volume = world.start(backing);
        inodes.insert(volume.inode());
        if (cycle > 1) {
            EXPECT_EQ(world.read(volume, 0, 64, cycle - 1), static_cast<int>(cycle) - 1);
        }
        ASSERT_TRUE(world.write(volume, 0, 64, cycle));
        ASSERT_TRUE(world.run(world.set->detach(volume)));
        ASSERT_TRUE(world.stop());
    }
    EXPECT_EQ(inodes.size(), 3u);
    const auto table = world.uuid_table();
    const auto invalidated = [](const ondisk::UuidEntry& entry) {
        return entry.uuid == ondisk::kInvalidatedUuid;
    };
    EXPECT_EQ(std::ranges::count_if(table, invalidated), 3);
}

TEST_F(Attach, LabelAndCacheModeSurvive) {
    WatchedDevice& backing = world.format();
    SetVolume& volume = world.start(backing);
    ASSERT_TRUE(world.run(volume.set_label("archive")));
    ASSERT_TRUE(world.run(volume.set_cache_mode(CacheMode::writearound)));
    EXPECT_EQ(world.superblock_of(backing).cache_mode(), CacheMode::writearound) << "durably";
    SetVolume& again = world.restart(backing);
    EXPECT_EQ(again.label(), "archive");
    EXPECT_EQ(again.name(), "archive");
    EXPECT_EQ(again.cache_mode(), CacheMode::writearound);
    EXPECT_EQ(core::label_text(world.uuid_table()[again.inode()].label), "archive");
}

TEST_F(Attach, LabelOf32CharactersIsRefused) {
    SetVolume& volume = world.start(world.format());
    EXPECT_FALSE(world.run(volume.set_label(std::string(32, 'x'))));
    EXPECT_TRUE(world.run(volume.set_label(std::string(31, 'x'))));
}

TEST_F(Attach, DetachedVolumeIsAttachedAgainWhileItIsInUse) {
    WatchedDevice& backing = world.format();
    SetVolume& volume = world.start(backing);
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    ASSERT_TRUE(world.run(world.set->detach(volume)));
    ASSERT_TRUE(world.write(volume, 0, 64, 2));
    core::Report report;
    ASSERT_TRUE(world.run(world.set->reattach(volume, report))) << report.refusal;
    EXPECT_TRUE(volume.attached());
    EXPECT_EQ(world.superblock_of(backing).state(), BackingState::clean);
    EXPECT_EQ(world.superblock_of(backing).set_uuid, world.set_uuid);
    EXPECT_EQ(world.read(volume, 0, 64, 2), 2) << "not what the cache had before";
    ASSERT_TRUE(world.write(volume, 32, 32, 3));
    EXPECT_EQ(volume.dirty_sectors(), 32u);
    EXPECT_FALSE(world.run(world.set->reattach(volume, report))) << "it is attached";
    SetVolume& again = world.restart(backing);
    EXPECT_EQ(again.dirty_sectors(), 32u);
    EXPECT_EQ(world.read(again, 0, 32, 2), 2);
    EXPECT_EQ(world.read(again, 32, 32, 3), 3);
    ASSERT_TRUE(world.run(again.write_back_all()));
    EXPECT_TRUE(world.on_backing(backing, 32, 32, 3, true));
}

TEST_F(Attach, VolumeThatRanWithoutTheSetIsAttachedWhileItIsInUse) {
    WatchedDevice& backing = world.format();
    ASSERT_TRUE(world.open());
    const auto added = world.add(backing, AttachMode::known);
    ASSERT_TRUE(added);
    SetVolume& volume = **added;
    ASSERT_TRUE(world.write(volume, 0, 64, 1));
    core::Report report;
    ASSERT_TRUE(world.run(world.set->reattach(volume, report))) << report.refusal;
    EXPECT_EQ(report.notes.size(), 1u) << "its name changes with the next start";
    EXPECT_EQ(world.read(volume, 0, 64, 1), 1);
    world.settle(seconds(3));
    const std::uint64_t hits = volume.stats().cache_hits;
    EXPECT_EQ(world.read(volume, 0, 64, 1), 1);
    EXPECT_EQ(volume.stats().cache_hits, hits + 1);
    ASSERT_TRUE(world.write(volume, 0, 64, 2));
    EXPECT_EQ(volume.dirty_sectors(), 64u);
    EXPECT_TRUE(world.run(volume.write_back_all()));
    EXPECT_TRUE(world.on_backing(backing, 0, 64, 2, true));
}

Task<void> keep_writing(SetVolume& volume, io::Buffer& data, const bool& enough,
                        std::uint64_t& failed) {
    while (!enough) {
        const Result<void> done = co_await volume.write(0, data.span(), core::WriteFlags());
        failed += !done;
        const Result<void> read = co_await volume.read(0, data.span());
        failed += !read;
    }
}

TEST_F(Attach, CyclesOfDetachAndAttachDisturbNoRequest) {
    WatchedDevice& backing = world.format();
    SetVolume& volume = world.start(backing);
    bool enough = false;
    std::uint64_t failed = 0;
    std::vector<io::Buffer> data;
    for (int i = 0; i < 4; ++i) data.push_back(pattern(0, 64, 1));
    for (io::Buffer& each : data) {
        world.world.executor().spawn(keep_writing(volume, each, enough, failed));
    }
    core::Report report;
    for (int cycle = 0; cycle < 10; ++cycle) {
        ASSERT_TRUE(world.run(world.set->detach(volume))) << cycle;
        ASSERT_TRUE(world.run(world.set->reattach(volume, report))) << cycle << report.refusal;
    }
    enough = true;
    world.settle(seconds(2));
    EXPECT_EQ(failed, 0u);
    EXPECT_EQ(world.read(volume, 0, 64, 1), 1);
    EXPECT_EQ(world.run(world.set->check_invariants()), std::vector<std::string>());
}

// The device as it comes back, with another size.
class Resized : public Attach {
protected:
    WatchedDevice& resized(const WatchedDevice& from, std::uint64_t sectors) {
        WatchedDevice& to = world.put(world.superblock_of(from), sectors);
        io::Buffer all((std::min(sectors, from.size_sectors()) - 64) * kSectorBytes);
        from.disk.peek(64, all.span());
        to.disk.poke(64, all.span());
        return to;
    }
};

TEST_F(Resized, DeviceThatShrankBelowItsDirtyDataIsRefused) {
    WatchedDevice& backing = world.format();
    SetVolume& volume = world.start(backing);
    const std::uint64_t end = volume.size_sectors();
    ASSERT_TRUE(world.write(volume, end - 64, 64, 1));
    ASSERT_TRUE(world.stop());
    ASSERT_TRUE(world.open());
    expect_refused(resized(backing, backing.size_sectors() - 32), AttachMode::known, Errc::invalid);
    EXPECT_NE(world.report.refusal.find("shrunk"), std::string::npos) << world.report.refusal;
    const auto whole = world.add(backing, AttachMode::known);
    ASSERT_TRUE(whole) << world.report.refusal;
    EXPECT_EQ(world.read(**whole, end - 64, 64, 1), 1);
}

TEST_F(Resized, CleanDataPastTheNewEndNeverComesBack) {
    WatchedDevice& backing = world.format({.mode = CacheMode::writethrough});
    SetVolume& volume = world.start(backing);
    const std::uint64_t end = volume.size_sectors();
    ASSERT_TRUE(world.write(volume, end - 128, 128, 1));
    ASSERT_TRUE(world.flush(volume));
    world.settle(seconds(5));
    ASSERT_TRUE(world.stop());
    WatchedDevice& small = resized(backing, backing.size_sectors() - 64);
    SetVolume& shrunk = world.start(small);
    EXPECT_EQ(shrunk.size_sectors(), end - 64);
    EXPECT_EQ(world.read(shrunk, end - 128, 64, 1), 1);
    EXPECT_GT(shrunk.stats().cache_hits, 0u) << "what is left is still cached";
    ASSERT_TRUE(world.stop());
    WatchedDevice& large = resized(small, backing.size_sectors());  // with zeroes at the end
    SetVolume& grown = world.start(large);
    EXPECT_EQ(world.read(grown, end - 64, 64, 0), 0);
    EXPECT_EQ(world.read(grown, end - 128, 64, 1), 1);
}

TEST_F(Attach, DetachKeepsTheOtherDeviceAndItsData) {
    WatchedDevice& first = world.format();
    WatchedDevice& second = world.format();
    SetVolume& one = world.start(first);
    const auto two = world.add(second);
    ASSERT_TRUE(two);
    ASSERT_TRUE(world.write(one, 0, 64, 1));
    ASSERT_TRUE(world.write(**two, 0, 64, 2));
    ASSERT_TRUE(world.run(world.set->detach(one)));
    EXPECT_EQ((*two)->dirty_sectors(), 64u);
    EXPECT_EQ(world.read(**two, 0, 64, 2), 2);
    EXPECT_FALSE(world.on_backing(second, 0, 64, 2));
}

}  // namespace
}  // namespace uc::test
