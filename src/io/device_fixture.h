// For the tests of this folder: an executor with a real io_uring, scratch files, and requests that
// are awaited by turning the loop.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "async/executor.h"
#include "io/block_device.h"
#include "io/buffer.h"
#include "io/uring_reactor.h"

namespace uc::io {

// A file that goes away with its owner; in TMPDIR, or where the test runs.
class ScratchFile {
public:
    explicit ScratchFile(std::uint64_t bytes, const std::string& directory = default_directory())
        : path_(directory + "/uc_io_test.XXXXXX") {
        const int fd = ::mkstemp(path_.data());
        if (fd >= 0) {
            EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
            ::close(fd);
        }
    }
    ScratchFile(const ScratchFile&) = delete;
    ScratchFile& operator=(const ScratchFile&) = delete;
    ~ScratchFile() { ::unlink(path_.c_str()); }
    const std::string& path() const { return path_; }

private:
    static std::string default_directory() {
        const char* const set = std::getenv("TMPDIR");
        return set != nullptr ? set : ".";
    }
    std::string path_;
};

inline Task<void> await_request(BlockDevice& device, IoRequest request,
                                std::optional<Result<void>>& out) {
    const Result<void> result = co_await BlockDevice::Awaiter(device, request);
    out = result;
}

class DeviceTest : public ::testing::Test {
protected:
    explicit DeviceTest(unsigned queue_depth = 64) {
        auto created = UringReactor::create(executor_, queue_depth);
        EXPECT_TRUE(created.has_value());
        if (created) reactor_ = std::move(*created);
    }

    void turn_until(const std::optional<Result<void>>& done) {
        while (!done) reactor_->turn(true);
    }
    Result<void> perform(BlockDevice& device, const IoRequest& request) {
        std::optional<Result<void>> done;
        executor_.spawn(await_request(device, request, done));
        turn_until(done);
        return *done;
    }
    static IoRequest request(IoKind kind, std::uint64_t sector, std::uint64_t sectors,
                             std::byte* data = nullptr, bool fua = false) {
        IoRequest made;
        made.kind = kind;
        made.sector = sector;
        made.sectors = sectors;
        made.data = data;
        made.fua = fua;
        return made;
    }
    Result<void> read(BlockDevice& device, std::uint64_t sector, std::span<std::byte> out) {
        return perform(device,
                       request(IoKind::read, sector, out.size() / kSectorBytes, out.data()));
    }
    Result<void> write(BlockDevice& device, std::uint64_t sector, std::span<std::byte> in,
                       bool fua = false) {
        return perform(device,
                       request(IoKind::write, sector, in.size() / kSectorBytes, in.data(), fua));
    }

    async::Executor executor_;
    std::unique_ptr<UringReactor> reactor_;
};

// Bytes that differ by sector and by `seed`.
inline void fill_pattern(std::span<std::byte> out, std::uint64_t seed) {
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<std::byte>((seed * 131 + i / kSectorBytes * 7 + i) & 0xff);
    }
}

inline bool holds_pattern(std::span<const std::byte> in, std::uint64_t seed) {
    Buffer expected(in.size());
    fill_pattern(expected.span(), seed);
    return std::memcmp(expected.data(), in.data(), in.size()) == 0;
}

inline bool all_zero(std::span<const std::byte> in) {
    for (const std::byte b : in) {
        if (b != std::byte{0}) return false;
    }
    return true;
}

}  // namespace uc::io
