#include "io/file_device.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <cstring>
#include <string>
#include <vector>

#include "io/device_fixture.h"
#include "io/loop_fixture.h"

namespace uc::io {
namespace {

constexpr std::uint64_t kSectors = 16384;  // 8 MiB

class FileDeviceTest : public DeviceTest {
protected:
    std::unique_ptr<FileDevice> open(const std::string& path, OpenOptions options = {}) {
        auto opened = FileDevice::open(*reactor_, path, options, &message_);
        EXPECT_TRUE(opened.has_value()) << message_;
        return opened ? std::move(*opened) : nullptr;
    }
    Error refused(const std::string& path, OpenOptions options = {}) {
        auto opened = FileDevice::open(*reactor_, path, options, &message_);
        EXPECT_FALSE(opened.has_value());
        return opened ? Error{} : opened.error();
    }
    bool reads_pattern(BlockDevice& device, std::uint64_t sector, std::size_t bytes,
                       std::uint64_t seed) {
        Buffer back(bytes);
        return read(device, sector, back.span()) && holds_pattern(back.span(), seed);
    }
    bool reads_zero(BlockDevice& device, std::uint64_t sector, std::size_t bytes) {
        Buffer back(bytes);
        return read(device, sector, back.span()) && all_zero(back.span());
    }
    bool write_pattern(BlockDevice& device, std::uint64_t sector, std::size_t bytes,
                       std::uint64_t seed, bool fua = false) {
        Buffer data(bytes);
        fill_pattern(data.span(), seed);
        return write(device, sector, data.span(), fua).has_value();
    }
    void check_life_of_data(FileDevice& device);

    ScratchFile file_{kSectors * kSectorBytes};
    std::string message_;
};

// Everything a device must do, on whatever file and in whatever mode.
void FileDeviceTest::check_life_of_data(FileDevice& device) {
    EXPECT_EQ(device.size_sectors(), kSectors);
    EXPECT_TRUE(write_pattern(device, 8, 64 << 10, 1));
    EXPECT_TRUE(write_pattern(device, 1024, 4096, 2, true));
    EXPECT_TRUE(write_pattern(device, kSectors - 1, 512, 3));
    EXPECT_TRUE(perform(device, request(IoKind::flush, 0, 0)).has_value());
    EXPECT_TRUE(reads_pattern(device, 8, 64 << 10, 1));
    EXPECT_TRUE(reads_pattern(device, 1024, 4096, 2));
    EXPECT_TRUE(reads_pattern(device, kSectors - 1, 512, 3));
    EXPECT_TRUE(write_pattern(device, 2048, 3 << 20, 4));
    EXPECT_TRUE(reads_pattern(device, 2048, 3 << 20, 4));
    // Leaves one sector of the pattern on both sides.
    EXPECT_TRUE(perform(device, request(IoKind::write_zeroes, 2049, (3 << 11) - 2, nullptr, true)));
    EXPECT_TRUE(reads_zero(device, 2049, ((3 << 11) - 2) * kSectorBytes));
    EXPECT_TRUE(reads_pattern(device, 2048, 512, 4));
    EXPECT_FALSE(reads_zero(device, 2048 + (3 << 11) - 1, 512));
    const Result<void> discarded = perform(device, request(IoKind::discard, 1024, 8));
    EXPECT_EQ(discarded.has_value(), device.supports_discard());
    EXPECT_EQ(reads_zero(device, 1024, 4096), device.supports_discard());
    EXPECT_TRUE(reads_pattern(device, 8, 64 << 10, 1));
}

TEST_F(FileDeviceTest, KeepsDataWithDirectIo) {
    const auto device = open(file_.path());
    ASSERT_NE(device, nullptr);
    EXPECT_EQ(device->name(), file_.path());
    check_life_of_data(*device);
}

TEST_F(FileDeviceTest, KeepsDataThroughThePageCache) {
    OpenOptions options;
    options.try_direct = false;
    const auto device = open(file_.path(), options);
    ASSERT_NE(device, nullptr);
    EXPECT_FALSE(device->direct());
    check_life_of_data(*device);
}

TEST_F(FileDeviceTest, WritesZeroesWhereTheFileSystemHasNoSuchCall) {
    if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no tmpfs";
    const ScratchFile in_memory(kSectors * kSectorBytes, "/dev/shm");
    const auto device = open(in_memory.path());
    ASSERT_NE(device, nullptr);
    check_life_of_data(*device);
}

TEST_F(FileDeviceTest, ReopeningSeesWhatWasWritten) {
    { EXPECT_TRUE(write_pattern(*open(file_.path()), 100, 8192, 9)); }
    EXPECT_TRUE(reads_pattern(*open(file_.path()), 100, 8192, 9));
}

TEST_F(FileDeviceTest, AcceptsMemoryOfAnyAlignment) {
    const auto device = open(file_.path());
    ASSERT_NE(device, nullptr);
    constexpr std::size_t kBytes = (2 << 20) + 1536;  // more than one bounced piece
    Buffer holder(kBytes + 64);
    const std::span<std::byte> odd = holder.span().subspan(3, kBytes);
    fill_pattern(odd, 21);
    EXPECT_TRUE(write(*device, 7, odd, true));
    EXPECT_TRUE(reads_pattern(*device, 7, kBytes, 21));
    std::memset(odd.data(), 0, kBytes);
    EXPECT_TRUE(read(*device, 7, odd));
    EXPECT_TRUE(holds_pattern(odd, 21));
}

TEST_F(FileDeviceTest, RefusesRequestsBeyondTheEnd) {
    const auto device = open(file_.path());
    ASSERT_NE(device, nullptr);
    Buffer two(1024);
    EXPECT_EQ(read(*device, kSectors - 1, two.span()).error().code, Errc::invalid);
    EXPECT_EQ(write(*device, ~0ULL, two.span()).error().code, Errc::invalid);
    const auto huge = perform(*device, request(IoKind::write_zeroes, 1, ~0ULL));
    EXPECT_EQ(huge.error().code, Errc::invalid);
    struct stat status {};
    ASSERT_EQ(::stat(file_.path().c_str(), &status), 0);
    EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), kSectors * kSectorBytes);
}

TEST_F(FileDeviceTest, ReportsAFileThatShrank) {
    const auto device = open(file_.path());
    ASSERT_NE(device, nullptr);
    ASSERT_EQ(::truncate(file_.path().c_str(), 4096 + 512), 0);
    Buffer page(4096);
    EXPECT_EQ(read(*device, 8, page.span()).error().code, Errc::io);
    EXPECT_TRUE(read(*device, 0, page.span()).has_value());
}

TEST_F(FileDeviceTest, PromisesNothingOnceTheFileWasCutOff) {
    const auto device = open(file_.path());
    ASSERT_NE(device, nullptr);
    EXPECT_TRUE(perform(*device, request(IoKind::flush, 0, 0)).has_value());
    ASSERT_EQ(::truncate(file_.path().c_str(), 0), 0);
    EXPECT_TRUE(write_pattern(*device, 64, 4096, 6)) << "the file grows, up to here";
    Buffer page = Buffer::zeroed(4096);
    EXPECT_EQ(perform(*device, request(IoKind::flush, 0, 0)).error().code, Errc::gone);
    EXPECT_EQ(read(*device, 8, page.span()).error().code, Errc::gone) << "a hole by now";
}

TEST_F(FileDeviceTest, DurableWriteNoticesThatTheFileWasCutOff) {
    const auto device = open(file_.path());
    ASSERT_NE(device, nullptr);
    ASSERT_EQ(::truncate(file_.path().c_str(), 0), 0);
    Buffer page = Buffer::zeroed(4096);
    EXPECT_EQ(write(*device, 0, page.span(), true).error().code, Errc::gone);
}

TEST_F(FileDeviceTest, ReadOnlyDevicesReadAndRefuseWrites) {
    { EXPECT_TRUE(write_pattern(*open(file_.path()), 0, 4096, 6)); }
    OpenOptions options;
    options.read_only = true;
    const auto device = open(file_.path(), options);
    const auto second_reader = open(file_.path(), options);
    ASSERT_NE(device, nullptr);
    ASSERT_NE(second_reader, nullptr);
    EXPECT_TRUE(device->read_only());
    EXPECT_TRUE(reads_pattern(*device, 0, 4096, 6));
    Buffer page = Buffer::zeroed(4096);
    EXPECT_EQ(write(*device, 0, page.span()).error().code, Errc::read_only);
    EXPECT_EQ(perform(*device, request(IoKind::discard, 0, 8)).error().code, Errc::read_only);
    EXPECT_TRUE(perform(*device, request(IoKind::flush, 0, 0)).has_value());
    EXPECT_EQ(refused(file_.path()).code, Errc::busy);
}

TEST_F(FileDeviceTest, SaysWhoHasTheFileLocked) {
    const auto device = open(file_.path());
    ASSERT_NE(device, nullptr);
    EXPECT_EQ(refused(file_.path()).code, Errc::busy);
    EXPECT_EQ(message_.rfind(file_.path() + ": in use: locked by ", 0), 0u) << message_;
    EXPECT_EQ(message_.find('\n'), std::string::npos);
    OpenOptions shared;
    shared.exclusive = false;
    EXPECT_NE(open(file_.path(), shared), nullptr);
}

TEST_F(FileDeviceTest, ExplainsWhatCannotBeOpened) {
    EXPECT_EQ(refused("/no/such/path").code, Errc::not_found);
    EXPECT_EQ(message_, "/no/such/path: no such file or device");
    EXPECT_EQ(refused("/tmp").code, Errc::invalid);
    EXPECT_EQ(message_, "/tmp: is a directory");
    EXPECT_EQ(refused("/dev/null").code, Errc::invalid);
    EXPECT_EQ(message_, "/dev/null: neither a file nor a block device");
    const ScratchFile tiny(511);
    EXPECT_EQ(refused(tiny.path()).code, Errc::invalid);
    EXPECT_EQ(message_, tiny.path() + ": too small: less than one sector");
    if (::geteuid() != 0) {
        ASSERT_EQ(::chmod(tiny.path().c_str(), 0), 0);
        EXPECT_EQ(refused(tiny.path()).sys, EACCES);
        EXPECT_EQ(message_, tiny.path() + ": permission denied");
    }
}

TEST_F(FileDeviceTest, WorksWhenNoFileSlotIsLeft) {
    const Descriptor other(::open("/dev/null", O_RDWR | O_CLOEXEC));
    int last = 0;
    while (last >= 0) last = reactor_->register_file(other.get());
    const auto device = open(file_.path());
    ASSERT_NE(device, nullptr);
    check_life_of_data(*device);
}

TEST_F(FileDeviceTest, DestructionWaitsForWhatIsInFlight) {
    Buffer page(4096);
    fill_pattern(page.span(), 33);
    std::optional<Result<void>> done;
    auto device = open(file_.path());
    executor_.spawn(await_request(*device, request(IoKind::write, 0, 8, page.data(), true), done));
    executor_.run_ready();
    device.reset();
    EXPECT_FALSE(done.has_value());
    executor_.run_ready();
    EXPECT_TRUE(done.has_value() && done->has_value());
    EXPECT_TRUE(reads_pattern(*open(file_.path()), 0, 4096, 33));
}

// More than the submission queue (64) and more than the device's own limit.
TEST_F(FileDeviceTest, CompletesEveryOneOfThousandsOfConcurrentRequests) {
    const auto device = open(file_.path());
    ASSERT_NE(device, nullptr);
    constexpr std::size_t kRequests = FileDevice::kMaxInFlight + 900;
    Buffer data(kRequests * 4096);
    std::vector<std::optional<Result<void>>> done(kRequests);
    for (const IoKind kind : {IoKind::write, IoKind::read}) {
        for (std::size_t i = 0; i < kRequests; ++i) {
            const std::span<std::byte> page = data.span().subspan(i * 4096, 4096);
            if (kind == IoKind::write) fill_pattern(page, i);
            done[i].reset();
            executor_.spawn(await_request(*device, request(kind, i * 8, 8, page.data()), done[i]));
        }
        for (const auto& one : done) turn_until(one);
        for (const auto& one : done) EXPECT_TRUE(one->has_value());
        if (kind == IoKind::write) std::memset(data.data(), 0, data.size());
    }
    for (std::size_t i = 0; i < kRequests; ++i) {
        EXPECT_TRUE(holds_pattern(data.span().subspan(i * 4096, 4096), i)) << i;
    }
}

TEST_F(FileDeviceTest, KeepsDataOnABlockDevice) {
    const LoopDevice loop(file_.path(), 512);
    if (!loop.ready()) GTEST_SKIP() << "no loop devices here";
    const auto device = open(loop.path());
    ASSERT_NE(device, nullptr);
    EXPECT_TRUE(device->direct());
    check_life_of_data(*device);
    EXPECT_EQ(refused(loop.path()).code, Errc::busy);
    EXPECT_EQ(message_, loop.path() + ": in use: another process has it open exclusively");
}

TEST_F(FileDeviceTest, RefusesToWriteToAProtectedBlockDevice) {
    const LoopDevice loop(file_.path(), 512);
    if (!loop.ready()) GTEST_SKIP() << "no loop devices here";
    ASSERT_TRUE(loop.protect());
    EXPECT_EQ(refused(loop.path()).code, Errc::read_only);
    EXPECT_EQ(message_, loop.path() + ": can only be opened read-only");
    OpenOptions options;
    options.read_only = true;
    EXPECT_NE(open(loop.path(), options), nullptr);
}

TEST_F(FileDeviceTest, ServesSectorsOnABlockDeviceWithLargerBlocks) {
    const LoopDevice loop(file_.path(), 4096);
    if (!loop.ready()) GTEST_SKIP() << "no loop devices here";
    const auto device = open(loop.path());
    ASSERT_NE(device, nullptr);
    EXPECT_EQ(device->logical_block_sectors(), 8u);
    EXPECT_EQ(device->atomic_sectors(), 8u);
    EXPECT_FALSE(device->direct());
    EXPECT_TRUE(write_pattern(*device, 7, 8 << 10, 17, true));
    EXPECT_TRUE(reads_pattern(*device, 7, 8 << 10, 17));
}

}  // namespace
}  // namespace uc::io
