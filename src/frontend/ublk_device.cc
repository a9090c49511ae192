// What is in flight at the end: the commands that wait for a request stay with the driver when a
// device is left to the next daemon. So they are "lasting" operations of the reactor, and what they
// point to (Tags) is kept until its ring is gone.
#include "frontend/ublk_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "frontend/errno_of.h"

namespace uc::frontend {

namespace {

constexpr std::uint16_t kQueueDepth = 64;
constexpr std::uint32_t kMostQueues = 4;
constexpr std::uint32_t kMaxIoBytes = 512 << 10;
constexpr std::uint32_t kPageShift = 12;
constexpr std::uint32_t kMaxDiscardSectors = 1 << 21;
constexpr std::uint32_t kAnyDevice = ~std::uint32_t{0};
// A killed process is gone at once, but the driver notices a moment later.
constexpr Duration kPatience = std::chrono::seconds(15);
constexpr Duration kInterval = std::chrono::milliseconds(50);

std::string char_path(std::uint32_t id) {
    return fmt::format("/dev/ublkc{}", id);
}

// By this the next daemon knows the device again: the driver stores it and never looks at it.
std::uint64_t mark_of(const std::string& uuid) {
    std::uint64_t mark = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : uuid) mark = (mark ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return mark;
}

std::vector<std::uint32_t> existing_devices() {
    std::vector<std::uint32_t> ids;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
        const std::string name = entry.path().filename().string();
        unsigned id = 0;
        char rest = 0;
        if (std::sscanf(name.c_str(), "ublkc%u%c", &id, &rest) == 1) ids.push_back(id);
    }
    std::sort(ids.begin(), ids.end());
    return ids;
}

template <class T>
std::span<std::byte> bytes_of(T& object) {
    return std::as_writable_bytes(std::span<T, 1>(&object, 1));
}

bool is_running(pid_t pid) {
    return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

std::size_t description_bytes(std::uint16_t depth) {
    constexpr std::size_t kPage = std::size_t{1} << kPageShift;
    return (depth * sizeof(ublksrv_io_desc) + kPage - 1) / kPage * kPage;
}

}  // namespace

// All tags of all queues; tag number = queue * depth + the driver's tag.
struct UblkDevice::Tags {
    struct Tag final : io::UringOp {
        Tags* all = nullptr;
        async::Waiter* waiter = nullptr;
        int result = 0;
        void complete(int value) override {
            --all->in_flight;
            wake(value);
        }
        void wake(int value) {
            if (waiter == nullptr) return;
            result = value;
            std::exchange(waiter, nullptr)->wake();
        }
    };
    // `const int result = co_await Request(tag);` UBLK_IO_RES_ABORT: there are no more.
    struct Request {
        explicit Request(Tag& tag) : tag_(tag) {}
        bool await_ready() { return false; }
        template <class P>
        void await_suspend(std::coroutine_handle<P> self) {
            tag_.waiter = &self.promise();
        }
        int await_resume() { return tag_.result; }

    private:
        Tag& tag_;
    };

    int fd = -1;  // the character device
    std::uint16_t depth = 0;
    std::uint32_t buffer_bytes = 0;
    std::byte* buffers = nullptr;
    std::vector<const ublksrv_io_desc*> descriptions;  // per queue, written by the driver
    std::vector<Tag> tags;
    std::size_t in_flight = 0;

    Tags() = default;
    Tags(const Tags&) = delete;
    Tags& operator=(const Tags&) = delete;
    ~Tags() {
        for (const ublksrv_io_desc* queue : descriptions) {
            munmap(const_cast<ublksrv_io_desc*>(queue), description_bytes(depth));
        }
        if (buffers != nullptr) munmap(buffers, tags.size() * buffer_bytes);
        if (fd >= 0) ::close(fd);
    }

    const ublksrv_io_desc& description(std::uint32_t tag) const {
        return descriptions[tag / depth][tag % depth];
    }
    std::byte* buffer(std::uint32_t tag) const { return buffers + std::size_t{tag} * buffer_bytes; }
};

UblkDevice::UblkDevice(io::UringReactor& reactor, async::Executor& executor, UblkControl& control,
                       Export what)
    : reactor_(reactor), control_(control), what_(std::move(what)), serving_(executor) {}

UblkDevice::~UblkDevice() {
    if (tags_ && tags_->in_flight != 0) reactor_.keep(tags_);
}

std::string UblkDevice::path() const {
    return fmt::format("/dev/ublkb{}", info_.dev_id);
}

Task<Result<std::unique_ptr<UblkDevice>>> UblkDevice::start(io::UringReactor& reactor,
                                                            async::Executor& executor,
                                                            UblkControl& control, Export what,
                                                            std::string* message) {
    std::unique_ptr<UblkDevice> device(new UblkDevice(reactor, executor, control, std::move(what)));
    Result<void> begun = co_await device->find_or_add(message);
    if (!begun) co_return tl::unexpected(begun.error());
    co_return std::move(device);
}

Task<Result<void>> UblkDevice::find_or_add(std::string* message) {
    for (const std::uint32_t id : existing_devices()) {
        CO_TRY(const bool found, co_await adopt(id, message));
        if (found) co_return Result<void>{};
    }
    co_return co_await add(message);
}

// False: it is not ours, or it was and has been removed.
Task<Result<bool>> UblkDevice::adopt(std::uint32_t id, std::string* message) {
    const Instant deadline = reactor_.now() + kPatience;
    for (;;) {
        const Result<void> asked = co_await control_.run(ublk::kGetDevInfo, id, bytes_of(info_));
        if (!asked || info_.ublksrv_flags != mark_of(what_.uuid)) co_return false;
        if (info_.state != UBLK_S_DEV_LIVE || reactor_.now() > deadline) break;
        if (is_running(info_.ublksrv_pid)) {
            *message = fmt::format("{}: is served as {} by process {}", what_.name, path(),
                                   info_.ublksrv_pid);
            co_return fail(Errc::busy, "another process serves the block device");
        }
        co_await reactor_.sleep(kInterval);
    }
    if (info_.state == UBLK_S_DEV_DEAD) {
        CO_OK(co_await control_.run(ublk::kDelDev, id));
        co_return false;
    }
    ublk_params there{};
    there.len = sizeof there;
    CO_OK(co_await control_.run(ublk::kGetParams, id, bytes_of(there)));
    const ublk_params wanted = params();
    if (there.basic.dev_sectors != wanted.basic.dev_sectors ||
        there.basic.logical_bs_shift != wanted.basic.logical_bs_shift) {
        *message = fmt::format(
            "{}: {} waits for it with another size ({} sectors, not {}); unmount it and remove it "
            "with 'ublk del -n {}'",
            what_.name, path(), there.basic.dev_sectors, wanted.basic.dev_sectors, id);
        co_return fail(Errc::invalid, "the block device has another size");
    }
    Result<void> asked = co_await control_.run(ublk::kStartRecovery, id);
    while (!asked && asked.error().sys == EBUSY && reactor_.now() < deadline) {
        co_await reactor_.sleep(kInterval);
        Result<void> again = co_await control_.run(ublk::kStartRecovery, id);
        asked = again;
    }
    if (!asked) {
        *message = fmt::format("{}: {} cannot be recovered: {}", what_.name, path(),
                               std::strerror(asked.error().sys));
        co_return tl::unexpected(asked.error());
    }
    recovered_ = true;
    Result<void> begun = co_await begin(message);
    if (begun) co_return true;
    co_await let_go();
    co_return tl::unexpected(begun.error());
}

Task<Result<void>> UblkDevice::add(std::string* message) {
    const long processors = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
    info_ = ublksrv_ctrl_dev_info{};
    info_.nr_hw_queues = static_cast<std::uint16_t>(
        std::min<std::uint32_t>(kMostQueues, static_cast<std::uint32_t>(processors)));
    info_.queue_depth = kQueueDepth;
    info_.max_io_buf_bytes = kMaxIoBytes;
    info_.dev_id = kAnyDevice;
    info_.ublksrv_pid = getpid();
    info_.flags = ublk::kRecovery;
    info_.ublksrv_flags = mark_of(what_.uuid);
    Result<void> added = co_await control_.run(ublk::kAddDev, kAnyDevice, bytes_of(info_));
    if (!added) {
        *message = fmt::format("{}: the kernel gives no block device: {}", what_.name,
                               std::strerror(added.error().sys));
        co_return tl::unexpected(added.error());
    }
    ublk_params wanted = params();
    Result<void> set = co_await control_.run(ublk::kSetParams, info_.dev_id, bytes_of(wanted));
    if (set) {
        Result<void> begun = co_await begin(message);
        if (begun) co_return begun;
        set = begun;
    }
    // Its number must not stay taken.
    Result<void> stopped = co_await control_.run(ublk::kStopDev, info_.dev_id);
    static_cast<void>(stopped);
    co_await serving_.drained();
    tags_.reset();
    Result<void> removed = co_await control_.run(ublk::kDelDev, info_.dev_id);
    static_cast<void>(removed);
    if (message->empty()) {
        *message = fmt::format("{}: {} is refused by the kernel: {}", what_.name, path(),
                               std::strerror(set.error().sys));
    }
    co_return set;
}

Task<Result<void>> UblkDevice::begin(std::string* message) {
    const Result<void> opened = open_queues();
    if (!opened) {
        *message = fmt::format("{}: {}: {}", char_path(info_.dev_id), opened.error().what,
                               std::strerror(opened.error().sys));
        co_return opened;
    }
    for (std::uint32_t tag = 0; tag < tags_->tags.size(); ++tag) serving_.spawn(serve(tag));
    // Returns once all of these wait for requests.
    const std::uint32_t command = recovered_ ? ublk::kEndRecovery : ublk::kStartDev;
    co_return co_await control_.run(command, info_.dev_id, static_cast<std::uint64_t>(getpid()));
}

Result<void> UblkDevice::open_queues() {
    auto tags = std::make_shared<Tags>();
    tags->fd = ::open(char_path(info_.dev_id).c_str(), O_RDWR | O_CLOEXEC);
    if (tags->fd < 0) return fail(Errc::io, "cannot be opened", errno);
    tags->depth = info_.queue_depth;
    tags->buffer_bytes = info_.max_io_buf_bytes;
    const std::size_t count = std::size_t{info_.nr_hw_queues} * info_.queue_depth;
    for (std::size_t queue = 0; queue < info_.nr_hw_queues; ++queue) {
        const std::size_t at =
            UBLKSRV_CMD_BUF_OFFSET + queue * UBLK_MAX_QUEUE_DEPTH * sizeof(ublksrv_io_desc);
        void* const mapped = mmap(nullptr, description_bytes(tags->depth), PROT_READ,
                                  MAP_SHARED | MAP_POPULATE, tags->fd, static_cast<off_t>(at));
        if (mapped == MAP_FAILED) return fail(Errc::io, "cannot be mapped", errno);
        tags->descriptions.push_back(static_cast<const ublksrv_io_desc*>(mapped));
    }
    // Pages that no request has used yet cost nothing.
    void* const buffers = mmap(nullptr, count * tags->buffer_bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (buffers == MAP_FAILED) return fail(Errc::io, "no memory for its requests", errno);
    tags->buffers = static_cast<std::byte*>(buffers);
    tags->tags.resize(count);
    for (Tags::Tag& tag : tags->tags) tag.all = tags.get();
    tags_ = std::move(tags);
    return {};
}

ublk_params UblkDevice::params() const {
    const std::uint32_t block_bytes = what_.volume->block_sectors() * kSectorBytes;
    const auto shift = std::min<std::uint32_t>(
        static_cast<std::uint32_t>(std::countr_zero(block_bytes)), kPageShift);
    const std::uint64_t sectors_per_block = (std::uint64_t{1} << shift) / kSectorBytes;
    ublk_params p{};
    p.len = sizeof p;
    p.types = UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD;
    p.basic.attrs = UBLK_ATTR_VOLATILE_CACHE | UBLK_ATTR_FUA;
    if (what_.volume->read_only()) p.basic.attrs |= UBLK_ATTR_READ_ONLY;
    p.basic.logical_bs_shift = static_cast<std::uint8_t>(shift);
    p.basic.physical_bs_shift = kPageShift;
    p.basic.io_min_shift = kPageShift;
    p.basic.io_opt_shift = kPageShift;
    p.basic.max_sectors = kMaxIoBytes / kSectorBytes;
    p.basic.dev_sectors = what_.volume->size_sectors() / sectors_per_block * sectors_per_block;
    p.discard.discard_granularity = std::uint32_t{1} << shift;
    p.discard.max_discard_sectors = kMaxDiscardSectors;
    p.discard.max_write_zeroes_sectors = kMaxDiscardSectors;
    p.discard.max_discard_segments = 1;
    return p;
}

Task<void> UblkDevice::serve(std::uint32_t tag) {
    Tags::Tag& slot = tags_->tags[tag];
    std::uint32_t command = ublk::kFetch;
    int answer = 0;
    for (;;) {
        io_uring_sqe* const sqe = reactor_.prepare_lasting(&slot);
        ++tags_->in_flight;
        ublksrv_io_cmd io{};
        io.q_id = static_cast<std::uint16_t>(tag / tags_->depth);
        io.tag = static_cast<std::uint16_t>(tag % tags_->depth);
        io.result = answer;
        io.addr = reinterpret_cast<std::uint64_t>(tags_->buffer(tag));
        io_uring_prep_rw(IORING_OP_URING_CMD, sqe, tags_->fd, nullptr, 0, 0);
        sqe->cmd_op = command;
        std::memcpy(&sqe->cmd[0], &io, sizeof io);
        if (leaving_) co_return;  // the answer is on its way
        const int result = co_await Tags::Request(slot);
        if (result != UBLK_IO_RES_OK) co_return;
        const int performed = co_await perform(tag);
        answer = performed;
        command = ublk::kCommitAndFetch;
    }
}

// What the driver wants to hear: bytes done, or -errno.
Task<int> UblkDevice::perform(std::uint32_t tag) {
    const ublksrv_io_desc& asked = tags_->description(tag);
    const std::size_t bytes = std::size_t{asked.nr_sectors} * kSectorBytes;
    const std::uint8_t op = ublksrv_get_op(&asked);
    const bool moves_data = op == UBLK_IO_OP_READ || op == UBLK_IO_OP_WRITE;
    if (moves_data && bytes > tags_->buffer_bytes) co_return -EINVAL;
    if (op > UBLK_IO_OP_WRITE_ZEROES || op == UBLK_IO_OP_WRITE_SAME) co_return -EOPNOTSUPP;
    const Result<void> done = co_await pass_on(tag);
    if (!done) co_return -errno_of(done.error());
    co_return static_cast<int>(bytes);
}

Task<Result<void>> UblkDevice::pass_on(std::uint32_t tag) {
    const ublksrv_io_desc& asked = tags_->description(tag);
    const std::uint64_t sector = asked.start_sector;
    const std::uint64_t sectors = asked.nr_sectors;
    core::WriteFlags flags;
    flags.fua = (asked.op_flags & UBLK_IO_F_FUA) != 0;
    flags.priority = (asked.op_flags & UBLK_IO_F_META) != 0;
    core::Volume& volume = *what_.volume;
    std::byte* const data = tags_->buffer(tag);
    switch (ublksrv_get_op(&asked)) {
        case UBLK_IO_OP_READ:
            return volume.read(sector, {data, sectors * kSectorBytes});
        case UBLK_IO_OP_WRITE:
            return volume.write(sector, {data, sectors * kSectorBytes}, flags);
        case UBLK_IO_OP_FLUSH:
            return volume.flush();
        case UBLK_IO_OP_DISCARD:
            return volume.discard(sector, sectors);
        default:
            return volume.write_zeroes(sector, sectors, flags);
    }
}

// Opened exclusively, as a mount or an array does. In a process of its own: the last one to close a
// block device waits until what was written to it is out, and it is we who have to take that.
Task<bool> UblkDevice::in_use() const {
    const std::string block = path();
    const pid_t child = fork();
    if (child == 0) {
        const int fd = ::open(block.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);
        _exit(fd < 0 && errno == EBUSY ? 1 : 0);
    }
    if (child < 0) co_return true;
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    if (pidfd >= 0) {
        Result<std::size_t> ended = co_await reactor_.poll(pidfd, POLLIN);
        static_cast<void>(ended);
        ::close(pidfd);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    co_return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

// Answers what has been taken, and takes no more.
Task<void> UblkDevice::let_go() {
    leaving_ = true;
    if (tags_) {
        for (Tags::Tag& tag : tags_->tags) tag.wake(UBLK_IO_RES_ABORT);
    }
    co_await serving_.drained();
}

Task<bool> UblkDevice::stop() {
    const bool used = co_await in_use();
    if (used) {
        co_await let_go();
        co_return true;
    }
    // Requests go on until the kernel has none any more.
    Result<void> stopped = co_await control_.run(ublk::kStopDev, info_.dev_id);
    static_cast<void>(stopped);
    co_await serving_.drained();
    tags_.reset();  // the driver waits for the last user of the character device
    Result<void> removed = co_await control_.run(ublk::kDelDev, info_.dev_id);
    static_cast<void>(removed);
    co_return false;
}

}  // namespace uc::frontend
