#include "frontend/ublk_control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace uc::frontend {

namespace {

constexpr unsigned kEntries = 4;

// As block devices of the kernel load their own drivers. Whether it worked shows when the device is
// opened.
void load_module() {
    char name[] = "modprobe";
    char quiet[] = "-q";
    char module[] = "ublk_drv";
    char* const words[] = {name, quiet, module, nullptr};
    pid_t child = 0;
    if (posix_spawnp(&child, name, nullptr, nullptr, words, environ) != 0) return;
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

int open_control() {
    const int fd = ::open(ublk::kControlPath, O_RDWR | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT || geteuid() != 0) return fd;
    load_module();
    return ::open(ublk::kControlPath, O_RDWR | O_CLOEXEC);
}

}  // namespace

struct UblkControl::Ring {
    int fd = -1;
    io_uring ring{};
    bool ready = false;

    ~Ring() {
        if (ready) io_uring_queue_exit(&ring);
        if (fd >= 0) ::close(fd);
    }
};

Result<std::unique_ptr<UblkControl>> UblkControl::open(io::UringReactor& reactor,
                                                       std::string* message) {
    auto ring = std::make_unique<Ring>();
    ring->fd = open_control();
    if (ring->fd < 0) {
        const int error = errno;
        *message = fmt::format("{}: {}{}", ublk::kControlPath, std::strerror(error),
                               error == ENOENT ? " (needs Linux 6.4 or later with the module "
                                                 "ublk_drv)"
                                               : "");
        return fail(Errc::unsupported, "ublk is not available", error);
    }
    io_uring_params params{};
    params.flags = IORING_SETUP_SQE128;
    const int made = io_uring_queue_init_params(kEntries, &ring->ring, &params);
    if (made < 0) {
        *message = fmt::format("io_uring has no large entries here: {}", std::strerror(-made));
        return fail(Errc::unsupported, "ublk is not available", -made);
    }
    ring->ready = true;
    return std::unique_ptr<UblkControl>(new UblkControl(reactor, std::move(ring)));
}

UblkControl::UblkControl(io::UringReactor& reactor, std::unique_ptr<Ring> ring)
    : reactor_(reactor), ring_(std::move(ring)) {}

UblkControl::~UblkControl() = default;

Task<Result<void>> UblkControl::run(std::uint32_t command, std::uint32_t device,
                                    std::uint64_t value) {
    ublksrv_ctrl_cmd arguments{};
    arguments.dev_id = device;
    arguments.data[0] = value;
    co_return co_await run(command, arguments);
}

Task<Result<void>> UblkControl::run(std::uint32_t command, std::uint32_t device,
                                    std::span<std::byte> data) {
    ublksrv_ctrl_cmd arguments{};
    arguments.dev_id = device;
    arguments.len = static_cast<std::uint16_t>(data.size());
    arguments.addr = reinterpret_cast<std::uint64_t>(data.data());
    co_return co_await run(command, arguments);
}

Task<Result<void>> UblkControl::run(std::uint32_t command, ublksrv_ctrl_cmd arguments) {
    constexpr std::uint16_t kNoQueue = 0xFFFF;
    co_await one_at_a_time_.lock();
    const async::Mutex::Guard guard(one_at_a_time_);
    arguments.queue_id = kNoQueue;
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring_->ring);
    CHECK(sqe != nullptr);
    std::memset(sqe, 0, 2 * sizeof *sqe);
    sqe->opcode = IORING_OP_URING_CMD;
    sqe->fd = ring_->fd;
    sqe->cmd_op = command;
    std::memcpy(&sqe->cmd[0], &arguments, sizeof arguments);
    const int submitted = io_uring_submit(&ring_->ring);
    if (submitted < 0) co_return fail(Errc::io, "a ublk command cannot be given", -submitted);
    io_uring_cqe* done = nullptr;
    while (io_uring_peek_cqe(&ring_->ring, &done) != 0) {
        Result<std::size_t> ignored = co_await reactor_.poll(ring_->ring.ring_fd, POLLIN);
        static_cast<void>(ignored);
    }
    const int result = done->res;
    io_uring_cqe_seen(&ring_->ring, done);
    if (result < 0) co_return fail(Errc::io, "a ublk command failed", -result);
    co_return Result<void>{};
}

}  // namespace uc::frontend
