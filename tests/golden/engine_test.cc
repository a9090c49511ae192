// The engine on the kernel's own sets. Each is opened three times: read-only, which may not change
// a byte; then for writing and stopped again with its dirty data in place, which an independent
// reader judges; then with everything written back, after which the backing device alone must hold
// what the kernel once read through its cache.
#include <gtest/gtest.h>

#include <algorithm>

#include "admin/size_text.h"
#include "engine_world.h"
#include "golden_image.h"
#include "golden_set.h"
#include "ondisk/superblock.h"
#include "sim/disk_checker.h"

namespace uc::golden {
namespace {

using core::SetVolume;

class GoldenEngine : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        if (!can_unpack()) GTEST_SKIP() << "no zstd";
        if (!world.usable()) GTEST_SKIP() << "no io_uring";
        golden.emplace(GetParam());
        ASSERT_EQ(golden->problem(), "");
        ASSERT_EQ(golden->changed(), "") << "not what the manifest describes";
    }

    void open_all(bool read_only) {
        const Result<void> opened = world.open(golden->cache(), read_only);
        ASSERT_TRUE(opened) << world.report().refusal;
        for (const LogicalDevice& device : golden->devices()) {
            if (device.flash_only()) continue;
            ASSERT_FALSE(device.image.empty()) << "no image has the uuid of " << device.name;
            const auto added = world.add(device.image, read_only);
            ASSERT_TRUE(added) << world.report().refusal;
        }
    }

    // By uuid; flash-only volumes, whose uuid no manifest has, by size.
    SetVolume* volume_of(const LogicalDevice& device) {
        for (SetVolume* const volume : world.set().volumes()) {
            const bool same =
                device.flash_only()
                    ? volume->flash_only() && volume->size_sectors() * kSectorBytes == device.bytes
                    : volume->uuid().to_string() == device.uuid;
            if (same) return volume;
        }
        return nullptr;
    }

    void check_contents() {
        for (const LogicalDevice& device : golden->devices()) {
            SetVolume* const volume = volume_of(device);
            ASSERT_NE(volume, nullptr) << device.name;
            EXPECT_EQ(volume->size_sectors() * kSectorBytes, device.bytes) << device.name;
            EXPECT_EQ(world.content(*volume), device.sha256) << device.name;
        }
    }

    void check_facts() {
        const auto& notes = world.report().notes;
        EXPECT_EQ(std::count(notes.begin(), notes.end(), golden->replay()), 1) << golden->replay();
        if (golden->tree_depth() >= 0) {
            EXPECT_EQ(world.set().tree_depth(), static_cast<unsigned>(golden->tree_depth()));
        }
        for (const LogicalDevice& device : golden->devices()) {
            if (device.flash_only()) continue;
            const SetVolume& volume = *volume_of(device);
            EXPECT_EQ(volume.label(), device.label);
            EXPECT_EQ(ondisk::name_of(volume.state()), device.state);
            EXPECT_EQ(ondisk::name_of(volume.cache_mode()), device.cache_mode);
        }
    }

    // Write-back makes it less as soon as a set is open for writing.
    void check_dirty_data() {
        for (const LogicalDevice& device : golden->devices()) {
            if (device.dirty_data.empty()) continue;
            const std::uint64_t bytes = volume_of(device)->dirty_sectors() * kSectorBytes;
            EXPECT_EQ(admin::human(bytes), device.dirty_data) << device.name;
        }
    }

    // What the images hold, read without the engine.
    void check_images() {
        const FileBytes cache(golden->cache());
        const sim::DiskChecker checker(cache);
        EXPECT_EQ(checker.problems(), std::vector<std::string>());
        for (const LogicalDevice& device : golden->devices()) {
            if (device.flash_only()) continue;
            const FileBytes backing(device.image);
            const std::uint64_t offset = data_offset(device);
            const auto inode = checker.find(*ondisk::Uuid::parse(device.uuid));
            // A set that does not know the device has nothing of it.
            const auto sum = checker.device_sha256(inode.value_or(kNobody), &backing, offset,
                                                   device.bytes / kSectorBytes);
            EXPECT_EQ(sum, device.sha256) << device.name;
        }
    }

    static std::uint64_t data_offset(const LogicalDevice& device) {
        const FileBytes backing(device.image);
        std::vector<std::byte> bytes(ondisk::kSuperblockBytes);
        EXPECT_TRUE(backing.read(ondisk::kSuperblockSector * kSectorBytes, bytes));
        return ondisk::parse_superblock(bytes).data_offset();
    }

    static constexpr Inode kNobody = 0xFFFFF;

    std::optional<GoldenSet> golden;
    EngineWorld world;
};

TEST_P(GoldenEngine, ReadsWhatTheKernelReadAndChangesNoByteWhenReadOnly) {
    ASSERT_NO_FATAL_FAILURE(open_all(true));
    check_contents();
    check_dirty_data();
    EXPECT_EQ(world.run(world.set().check_invariants()), std::vector<std::string>());
    EXPECT_TRUE(world.close());
    EXPECT_EQ(golden->changed(), "");
}

TEST_P(GoldenEngine, LeavesTheSameContentWhenOpenedForWritingAndStopped) {
    ASSERT_NO_FATAL_FAILURE(open_all(false));
    check_facts();
    check_contents();
    EXPECT_TRUE(world.close());
    check_images();
    ASSERT_NO_FATAL_FAILURE(open_all(false));
    check_contents();
    EXPECT_TRUE(world.close());
    check_images();
}

TEST_P(GoldenEngine, LeavesABackingDeviceThatIsCompleteAloneWhenWrittenBackAndDetached) {
    ASSERT_NO_FATAL_FAILURE(open_all(false));
    for (const LogicalDevice& device : golden->devices()) {
        SetVolume& volume = *volume_of(device);
        if (device.flash_only()) continue;
        if (volume.state() == ondisk::BackingState::none) continue;
        const Result<void> written = world.run(volume.write_back_all());
        EXPECT_TRUE(written) << written.error().what;
        EXPECT_EQ(volume.dirty_sectors(), 0u);
        const Result<void> detached = world.run(world.set().detach(volume));
        EXPECT_TRUE(detached) << detached.error().what;
        EXPECT_EQ(volume.state(), ondisk::BackingState::none);
    }
    check_contents();
    EXPECT_TRUE(world.close());
    for (const LogicalDevice& device : golden->devices()) {
        if (device.flash_only()) continue;
        const std::uint64_t offset = data_offset(device) * kSectorBytes;
        EXPECT_EQ(sha256_of(device.image, offset), device.sha256) << device.name;
    }
    const FileBytes cache(golden->cache());
    EXPECT_EQ(sim::DiskChecker(cache).problems(), std::vector<std::string>());
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
    std::string name = info.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Kernel, GoldenEngine, testing::ValuesIn(set_names()), test_name);

}  // namespace
}  // namespace uc::golden
