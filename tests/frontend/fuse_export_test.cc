// The FUSE export seen through system calls, with a volume whose counts and errors are ours. File
// systems, loop devices and takeover of dead mounts: fuse_test.sh.
#include "frontend/fuse_export.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "server_thread.h"
#include "socket_path.h"

namespace uc::frontend {
namespace {

Task<void> end(FuseExport& fuse, std::promise<void>& done) {
    fuse.stop();
    co_await fuse.stopped();
    done.set_value();
}

Task<void> wait_unused(FuseExport& fuse, const core::Volume& volume, std::promise<void>& done) {
    co_await fuse.unused(&volume);
    done.set_value();
}

class FuseExportTest : public testing::Test {
protected:
    void SetUp() override {
        if (::access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "skipped: no /dev/fuse";
        if (::geteuid() != 0) GTEST_SKIP() << "skipped: mounting needs root here";
        ASSERT_NE(::mkdtemp(dir.data()), nullptr);
        server.call([this] {
            std::string message;
            auto mounted =
                FuseExport::mount(server.reactor(), server.executor(), dir, {}, &message);
            ASSERT_TRUE(mounted.has_value()) << message;
            fuse = std::move(*mounted);
            fuse->set_volumes({{"disk", &server.disk, ""}, {"other", &server.other, ""}});
            server.executor().spawn(fuse->serve());
        });
    }
    void TearDown() override {
        if (fuse == nullptr) return;
        stop_fuse();
        server.call([this] { fuse.reset(); });
        EXPECT_EQ(::rmdir(dir.c_str()), 0) << "still mounted";
    }
    void stop_fuse() {
        std::promise<void> done;
        server.call([&] { server.executor().spawn(end(*fuse, done)); });
        done.get_future().wait();
    }
    int open_disk(int flags) { return ::open((dir + "/disk").c_str(), flags | O_CLOEXEC); }
    MemoryVolume::Counts counts() {
        MemoryVolume::Counts out;
        server.call([&] { out = server.disk.counts; });
        return out;
    }

    std::string dir = "/tmp/ubcache-fuse-XXXXXX";
    SocketPath path;
    ServerThread server{path.text()};
    std::unique_ptr<FuseExport> fuse;
    std::vector<char> data = std::vector<char>(4096, 'x');
};

TEST_F(FuseExportTest, FsyncFlushesAndCloseDoesNot) {
    const int fd = open_disk(O_RDWR);
    EXPECT_EQ(::pwrite(fd, data.data(), 4096, 0), 4096);
    EXPECT_EQ(counts().flushes, 0u);
    EXPECT_EQ(::fsync(fd), 0);
    EXPECT_EQ(counts().flushes, 1u);
    EXPECT_EQ(::fdatasync(fd), 0);
    ::close(fd);
    EXPECT_EQ(counts().flushes, 2u);
    EXPECT_EQ(counts().fua_writes, 0u);
}

TEST_F(FuseExportTest, SynchronousDescriptorsWriteDurably) {
    for (const int flag : {O_SYNC, O_DSYNC}) {
        const unsigned before = counts().fua_writes;
        const int fd = open_disk(O_RDWR | flag);
        EXPECT_EQ(::pwrite(fd, data.data(), 4096, 0), 4096);
        EXPECT_EQ(::pwrite(fd, data.data(), 100, 5), 100);
        ::close(fd);
        EXPECT_EQ(counts().fua_writes - before, 2u);
    }
}

TEST_F(FuseExportTest, UnalignedWritesKeepTheirNeighbours) {
    const int fd = open_disk(O_RDWR);
    for (const auto& [offset, bytes] : {std::pair<off_t, std::size_t>{100, 5},
                                        {510, 4},
                                        {1000, 3000},
                                        {512, 100},
                                        {1024 - 30, 30},
                                        {0, 513}}) {
        server.call([this] { std::ranges::fill(server.disk.bytes(), std::byte{'-'}); });
        ASSERT_EQ(::pwrite(fd, data.data(), bytes, offset), static_cast<ssize_t>(bytes));
        std::string seen(8192, '?');
        ASSERT_EQ(::pread(fd, seen.data(), seen.size(), 0), 8192);
        std::string expected(8192, '-');
        expected.replace(static_cast<std::size_t>(offset), bytes, bytes, 'x');
        EXPECT_EQ(seen, expected) << offset << " " << bytes;
    }
    ::close(fd);
}

TEST_F(FuseExportTest, TransfersEndWhereTheVolumeEnds) {
    const int fd = open_disk(O_RDWR);
    const off_t size = 1 << 20;
    EXPECT_EQ(::pread(fd, data.data(), 4096, size), 0);
    EXPECT_EQ(::pread(fd, data.data(), 4096, size - 100), 100);
    EXPECT_EQ(::pwrite(fd, data.data(), 4096, size - 100), 100);
    EXPECT_EQ(::pwrite(fd, data.data(), 1, size), -1);
    EXPECT_EQ(errno, ENOSPC);
    ::close(fd);
}

TEST_F(FuseExportTest, FallocateZeroesAndNeverDiscards) {
    const int fd = open_disk(O_RDWR);
    server.call([this] { std::ranges::fill(server.disk.bytes(), std::byte{'-'}); });
    EXPECT_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1000, 5000), 0);
    EXPECT_EQ(::fallocate(fd, 0, 0, 1 << 20), 0);
    EXPECT_EQ(::fallocate(fd, 0, 0, 2 << 20), -1);
    EXPECT_EQ(errno, ENOSPC);
    std::string seen(8192, '?');
    ASSERT_EQ(::pread(fd, seen.data(), seen.size(), 0), 8192);
    std::string expected(8192, '-');
    expected.replace(1000, 5000, 5000, '\0');
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(counts().discards, 0u);
    EXPECT_EQ(counts().zeroes, 1u);
    ::close(fd);
}

TEST_F(FuseExportTest, ErrorsOfTheVolumeReachTheCaller) {
    const int fd = open_disk(O_RDWR);
    const std::pair<Errc, int> table[] = {{Errc::io, EIO},
                                          {Errc::data_lost, EIO},
                                          {Errc::no_space, ENOSPC},
                                          {Errc::stopped, ESHUTDOWN}};
    for (const auto& [code, expected] : table) {
        server.call([this, code = code] { server.disk.failure = Error{code, 0, ""}; });
        EXPECT_EQ(::pread(fd, data.data(), 512, 0), -1);
        EXPECT_EQ(errno, expected);
        EXPECT_EQ(::pwrite(fd, data.data(), 7, 0), -1);
        EXPECT_EQ(errno, expected);
        EXPECT_EQ(::fsync(fd), -1);
        EXPECT_EQ(errno, expected);
    }
    ::close(fd);
}

TEST_F(FuseExportTest, ReadOnlyVolumesCannotBeOpenedForWriting) {
    server.call([this] { server.disk.writable = false; });
    EXPECT_EQ(open_disk(O_RDWR), -1);
    EXPECT_EQ(errno, EROFS);
    const int fd = open_disk(O_RDONLY);
    EXPECT_EQ(::pread(fd, data.data(), 512, 0), 512);
    ::close(fd);
}

TEST_F(FuseExportTest, ARemovedVolumeIsStaleWhereItIsOpenAndTheOthersStay) {
    const int fd = open_disk(O_RDONLY);
    std::promise<void> unused;
    server.call([&] {
        fuse->set_volumes({{"other", &server.other, ""}});
        server.executor().spawn(wait_unused(*fuse, server.disk, unused));
    });
    unused.get_future().wait();
    EXPECT_EQ(::pread(fd, data.data(), 512, 0), -1);
    EXPECT_EQ(errno, ESTALE);
    ::close(fd);
    const int other = ::open((dir + "/other").c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_EQ(::pread(other, data.data(), 512, 0), 512);
    ::close(other);
}

TEST_F(FuseExportTest, StopAnswersWhatItTookAndCutsOffOpenFiles) {
    server.call([this] { server.disk.delay(server.reactor(), std::chrono::milliseconds(50)); });
    const int fd = open_disk(O_RDONLY);
    ssize_t got = 0;
    std::thread reader([&] { got = ::pread(fd, data.data(), 4096, 0); });
    while (counts().reads == 0) {
    }
    stop_fuse();
    reader.join();
    EXPECT_EQ(got, 4096);
    EXPECT_EQ(::pread(fd, data.data(), 512, 0), -1);
    ::close(fd);
}

TEST_F(FuseExportTest, RefusalsSayWhy) {
    server.call([this] {
        std::string message;
        const auto missing = FuseExport::mount(server.reactor(), server.executor(),
                                               "/nonexistent/dir", {}, &message);
        EXPECT_EQ(missing.error().code, Errc::not_found);
        EXPECT_EQ(message, "/nonexistent/dir: No such file or directory");
        const auto file =
            FuseExport::mount(server.reactor(), server.executor(), "/etc/passwd", {}, &message);
        EXPECT_EQ(file.error().code, Errc::invalid);
    });
}

TEST(FuseMount, DoesNotHideWhatIsInADirectory) {
    std::string dir = "/tmp/ubcache-full-XXXXXX";
    ASSERT_NE(::mkdtemp(dir.data()), nullptr);
    const std::string precious = dir + "/precious";
    ::close(::open(precious.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    SocketPath path;
    ServerThread server{path.text()};
    server.call([&] {
        std::string message;
        const auto mounted =
            FuseExport::mount(server.reactor(), server.executor(), dir, {}, &message);
        ASSERT_FALSE(mounted.has_value());
        EXPECT_EQ(mounted.error().code, Errc::invalid);
        EXPECT_NE(message.find(dir + ": the directory is not empty"), std::string::npos) << message;
    });
    EXPECT_EQ(::access(precious.c_str(), F_OK), 0);
    ::unlink(precious.c_str());
    EXPECT_EQ(::rmdir(dir.c_str()), 0);
}

}  // namespace
}  // namespace uc::frontend
