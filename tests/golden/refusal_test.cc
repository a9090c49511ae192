// What the engine answers when it cannot do what it is asked, one test for each kind of error, on
// the kernel's sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "engine_world.h"
#include "golden_image.h"
#include "golden_set.h"
#include "ondisk/superblock.h"

namespace uc::golden {
namespace {

using core::SetVolume;

// A device whose reads or writes can be made to fail.
class FailingDevice final : public io::BlockDevice {
public:
    explicit FailingDevice(io::BlockDevice& device) : device_(device) {}
    bool submit(io::IoRequest* request) override {
        const bool read = request->kind == io::IoKind::read;
        if (!(read ? fail_reads : fail_writes)) return device_.submit(request);
        request->fail(Error{Errc::io, EIO, "injected"});
        return true;
    }
    std::uint64_t size_sectors() const override { return device_.size_sectors(); }
    std::uint32_t logical_block_sectors() const override { return 1; }
    const std::string& name() const override { return device_.name(); }

    bool fail_reads = false;
    bool fail_writes = false;

private:
    io::BlockDevice& device_;
};

// Of `writeback-dirty`: written in writeback mode, and the last that write-back comes to.
constexpr std::uint64_t kDirty = 98304;
constexpr std::uint64_t kDirtySectors = 3072;

class Refusal : public testing::Test {
protected:
    void SetUp() override {
        if (!can_unpack()) GTEST_SKIP() << "no zstd";
        if (!world.usable()) GTEST_SKIP() << "no io_uring";
    }

    // Opens a set with its first backing device.
    void open(const std::string& name, bool read_only = false) {
        golden.emplace(name);
        ASSERT_EQ(golden->problem(), "");
        io::FileDevice* const file = world.device(golden->cache(), read_only);
        ASSERT_NE(file, nullptr);
        cache.emplace(*file);
        core::SetOptions options;
        options.read_only = read_only;
        ASSERT_TRUE(world.open(*cache, options)) << world.report().refusal;
        cache->fail_reads = reads_fail;
        const auto added = world.add(image(), read_only);
        ASSERT_TRUE(added) << world.report().refusal;
        volume = *added;
    }
    const std::filesystem::path& image() const { return golden->devices().front().image; }

    // The image of the backing device with another superblock.
    void edit_superblock(const std::filesystem::path& path, auto change) {
        FileBytes file(path);
        std::vector<std::byte> bytes(ondisk::kSuperblockBytes);
        ASSERT_TRUE(file.read(ondisk::kSuperblockSector * kSectorBytes, bytes));
        ondisk::Superblock superblock = ondisk::parse_superblock(bytes);
        change(superblock);
        ASSERT_TRUE(file.write(ondisk::kSuperblockSector * kSectorBytes,
                               ondisk::encode_superblock(superblock)));
    }

    Result<void> read(std::uint64_t sector, std::uint64_t sectors = 8) {
        buffer = io::Buffer(sectors * kSectorBytes);
        return world.run(volume->read(sector, buffer.span()));
    }
    Result<void> write(std::uint64_t sector, std::uint64_t sectors = 8) {
        buffer = io::Buffer::zeroed(sectors * kSectorBytes);
        return world.run(volume->write(sector, buffer.span(), {}));
    }

    template <class T>
    static void expect(Errc code, const Result<T>& result) {
        ASSERT_FALSE(result);
        EXPECT_STREQ(name_of(result.error().code), name_of(code)) << result.error().what;
    }

    std::optional<GoldenSet> golden;
    std::optional<FailingDevice> cache;
    bool reads_fail = false;  // of the cache, before write-back can begin
    io::Buffer buffer;
    SetVolume* volume = nullptr;
    EngineWorld world;
};

TEST_F(Refusal, DirtyDataThatCannotBeReadIsLostAndNeverReplacedByOldData) {
    reads_fail = true;
    ASSERT_NO_FATAL_FAILURE(open("writeback-dirty"));
    std::size_t lost = 0;
    for (std::uint64_t at = kDirty; at < kDirty + kDirtySectors; at += 8) {
        const Result<void> done = read(at);
        if (!done && done.error().code == Errc::data_lost) ++lost;
    }
    EXPECT_EQ(lost, kDirtySectors / 8);
    cache->fail_reads = false;
}

TEST_F(Refusal, CleanDataThatCannotBeReadComesFromTheBackingDevice) {
    ASSERT_NO_FATAL_FAILURE(open("clean-writethrough"));
    cache->fail_reads = true;
    EXPECT_EQ(world.content(*volume), golden->devices().front().sha256);
    cache->fail_reads = false;
}

TEST_F(Refusal, AFailedSetWithDirtyDataIsGone) {
    ASSERT_NO_FATAL_FAILURE(open("writeback-dirty"));
    cache->fail_writes = true;
    // The backing device takes it, but that the cache's copy is out of date cannot be written down.
    EXPECT_TRUE(write(kDirty));
    EXPECT_FALSE(world.run(volume->flush()));
    EXPECT_NE(world.set().failure(), "");
    expect(Errc::gone, world.run(volume->flush()));
    EXPECT_FALSE(write(kDirty));
    EXPECT_EQ(volume->state(), ondisk::BackingState::dirty);
}

TEST_F(Refusal, AFailedSetWithoutDirtyDataIsNoReasonToRefuseAnything) {
    ASSERT_NO_FATAL_FAILURE(open("clean-writethrough"));
    cache->fail_writes = cache->fail_reads = true;
    EXPECT_TRUE(write(0, 2048));  // cached, clean
    EXPECT_TRUE(world.run(volume->flush()));
    EXPECT_NE(world.set().failure(), "");
    EXPECT_TRUE(read(0, 2048));
    EXPECT_EQ(volume->state(), ondisk::BackingState::stale);
    EXPECT_TRUE(std::ranges::all_of(buffer.span(), [](std::byte b) { return b == std::byte{}; }));
}

TEST_F(Refusal, AFailedSetInWritebackModeTakesWritesAsLongAsNothingIsDirty) {
    ASSERT_NO_FATAL_FAILURE(open("clean-writethrough"));
    ASSERT_TRUE(world.run(volume->set_cache_mode(ondisk::CacheMode::writeback)));
    const auto other = world.run(world.set().create_flash_volume(8, ""));
    ASSERT_TRUE(other);
    cache->fail_writes = cache->fail_reads = true;
    EXPECT_TRUE(world.run((*other)->discard(0, 8)));
    expect(Errc::gone, world.run((*other)->flush()));
    EXPECT_NE(world.set().failure(), "");
    EXPECT_TRUE(write(0));
    EXPECT_TRUE(world.run(volume->flush()));
    EXPECT_TRUE(read(0));
    EXPECT_EQ(volume->state(), ondisk::BackingState::stale);
}

TEST_F(Refusal, ADeviceThatCannotBeReadIsAnIoError) {
    golden.emplace("writeback-dirty");
    FailingDevice broken(*world.device(golden->cache(), false));
    broken.fail_reads = true;
    expect(Errc::io, world.open(broken, {}));
    EXPECT_EQ(world.report().refusal, golden->cache().string() + ": the superblock cannot be read");
}

TEST_F(Refusal, DevicesInTheWrongPlaceAreInvalid) {
    golden.emplace("writeback-dirty");
    expect(Errc::invalid, world.open(image()));
    EXPECT_EQ(world.report().refusal,
              image().string() + ": this is a backing device, not a cache device");
    ASSERT_TRUE(world.open(golden->cache()));
    const GoldenSet other("flash-only");
    expect(Errc::invalid, world.add(other.cache()));
    expect(Errc::invalid, world.add(other.devices().front().image));
    EXPECT_NE(world.report().refusal.find("it belongs to cache set 71fd78f0"), std::string::npos)
        << world.report().refusal;
}

TEST_F(Refusal, RequestsBeyondTheEndAreInvalid) {
    ASSERT_NO_FATAL_FAILURE(open("writeback-dirty"));
    expect(Errc::invalid, read(volume->size_sectors() - 7));
    expect(Errc::invalid, write(volume->size_sectors()));
    expect(Errc::invalid, read(~std::uint64_t{0} - 3));
    expect(Errc::invalid, world.run(volume->discard(volume->size_sectors(), 8)));
}

TEST_F(Refusal, ASecondDeviceWithOneUuidIsBusy) {
    ASSERT_NO_FATAL_FAILURE(open("writeback-dirty"));
    const std::filesystem::path copy = image().parent_path() / "copy.img";
    std::filesystem::copy_file(image(), copy);
    expect(Errc::busy, world.add(copy));
    // Both names are there.
    const std::string& said = world.report().refusal;
    EXPECT_EQ(said.find(copy.string() + ": its uuid "), 0u) << said;
    EXPECT_NE(said.find("is that of " + image().string()), std::string::npos) << said;
}

TEST_F(Refusal, ADirtyDeviceThatTheSetDoesNotKnowIsNotFound) {
    golden.emplace("writeback-dirty");
    edit_superblock(image(), [](ondisk::Superblock& superblock) { superblock.uuid.bytes[0] ^= 1; });
    const std::string before = sha256_of(image());
    ASSERT_TRUE(world.open(golden->cache()));
    expect(Errc::not_found, world.add(image()));
    EXPECT_TRUE(world.close());
    EXPECT_EQ(sha256_of(image()), before);
}

TEST_F(Refusal, ASetOpenForReadingIsReadOnly) {
    ASSERT_NO_FATAL_FAILURE(open("writeback-dirty", true));
    EXPECT_TRUE(volume->read_only());
    expect(Errc::read_only, write(0));
    expect(Errc::read_only, world.run(volume->discard(0, 8)));
    expect(Errc::read_only, world.run(volume->write_back_all()));
    expect(Errc::read_only, world.run(volume->set_label("other")));
    expect(Errc::read_only, world.run(volume->set_cache_mode(ondisk::CacheMode::none)));
    expect(Errc::read_only, world.run(world.set().detach(*volume)));
    expect(Errc::read_only, world.run(world.set().create_flash_volume(8, "more")));
    EXPECT_TRUE(world.close());
    EXPECT_EQ(golden->changed(), "");
}

TEST_F(Refusal, AStoppedSetTakesNoRequests) {
    ASSERT_NO_FATAL_FAILURE(open("writeback-dirty"));
    ASSERT_TRUE(world.run(world.set().stop()));
    expect(Errc::stopped, read(0));
    expect(Errc::stopped, write(0));
    expect(Errc::stopped, world.run(world.set().create_flash_volume(8, "more")));
}

TEST_F(Refusal, AFullUuidTableHasNoSpace) {
    ASSERT_NO_FATAL_FAILURE(open("btree-deep"));
    Result<SetVolume*> made = nullptr;
    std::size_t count = 0;
    while (made && count < 200) {
        made = world.run(world.set().create_flash_volume(8, ""));
        if (made) ++count;
    }
    EXPECT_EQ(count, 127u);  // 16 KiB of entries, one taken
    expect(Errc::no_space, made);
    EXPECT_EQ(world.content(*volume), golden->devices().front().sha256);
}

TEST_F(Refusal, SetsOfSeveralCacheDevicesAreNotSupported) {
    golden.emplace("writeback-dirty");
    edit_superblock(golden->cache(),
                    [](ondisk::Superblock& superblock) { superblock.nr_in_set = 2; });
    const std::string before = sha256_of(golden->cache());
    expect(Errc::unsupported, world.open(golden->cache()));
    EXPECT_EQ(sha256_of(golden->cache()), before);
}

}  // namespace
}  // namespace uc::golden
