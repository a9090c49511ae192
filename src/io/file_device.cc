// Requests on a file descriptor. Each is one of these chains of io_uring operations:
//
//   read, write     transfer ... transfer              one, unless it is cut short or bounced
//   fua write       transfer with RWF_DSYNC            or transfer, fdatasync where that is refused
//   write_zeroes    fallocate(ZERO_RANGE) [fdatasync]  or transfers from a block of zeroes
//   discard         fallocate(PUNCH_HOLE)              block devices: the discard command,
//   Linux 6.12 flush           fdatasync
//
// User memory goes to the kernel as it is. Only if it is not aligned as O_DIRECT demands, the data
// takes the way through a bounce buffer, a piece at a time. A long request is not cut otherwise: a
// RAID below should see whole stripes.
//
// Short transfers go on where they ended; interruptions are retried a bounded number of times;
// every other error ends the request. Operations come from a fixed array: nothing is allocated per
// request.
#include "io/file_device.h"

#include <fcntl.h>
#include <liburing.h>
#include <linux/falloc.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace uc::io {

namespace {

constexpr std::size_t kMaxTransferBytes = std::size_t{1}
                                          << 30;           // the kernel's limit is 2 GiB - 4 KiB
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // bounced, or zeroes
constexpr std::size_t kKeptBounceBytes = std::size_t{64} << 10;
constexpr int kMaxRetries = 16;
constexpr Error kCutOff{Errc::gone, 0,
                        "the file is shorter than when it was opened: somebody has cut it off; "
                        "stop its users and put the whole file back"};
// BLOCK_URING_CMD_DISCARD of newer kernel headers.
constexpr unsigned kBlockDiscardCommand = _IO(0x12, 0);

bool is_write(IoKind kind) {
    return kind == IoKind::write || kind == IoKind::write_zeroes || kind == IoKind::discard;
}

const char* what_failed(IoKind kind) {
    switch (kind) {
        case IoKind::read:
            return "read failed";
        case IoKind::write:
            return "write failed";
        case IoKind::flush:
            return "flush failed";
        case IoKind::discard:
            return "discard failed";
        case IoKind::write_zeroes:
            return "writing zeroes failed";
    }
    return "request failed";
}

Error to_error(IoKind kind, int sys) {
    Errc code = Errc::io;
    if (sys == ENODEV || sys == ENXIO || sys == ENOMEDIUM) code = Errc::gone;
    if (sys == EOPNOTSUPP) code = Errc::unsupported;
    return {code, sys, what_failed(kind)};
}

}  // namespace

struct FileDevice::Op final : UringOp {
    enum class Step : std::uint8_t { transfer, allocate, discard_command, sync };

    void complete(int result) override { device->completed(*this, result); }
    std::size_t total_bytes() const { return request->sectors * kSectorBytes; }

    FileDevice* device = nullptr;
    IoRequest* request = nullptr;
    Op* next_free = nullptr;
    std::size_t done_bytes = 0;
    std::size_t step_bytes = 0;
    Step step = Step::transfer;
    bool bounced = false;
    bool dsync = false;  // this step is durable when it completes
    int retries = 0;
    Buffer bounce;
};

Result<std::unique_ptr<FileDevice>> FileDevice::open(UringReactor& reactor, const std::string& path,
                                                     const OpenOptions& options,
                                                     std::string* message) {
    TRY(OpenedFile file, open_file(path, options, message));
    return std::unique_ptr<FileDevice>(
        new FileDevice(reactor, path, std::move(file), options.read_only));
}

FileDevice::FileDevice(UringReactor& reactor, std::string path, OpenedFile file, bool read_only)
    : reactor_(reactor),
      path_(std::move(path)),
      file_(std::move(file)),
      slot_(reactor.register_file(file_.fd.get())),
      read_only_(read_only),
      discard_command_(file_.block),
      ops_(std::make_unique<Op[]>(kMaxInFlight)) {
    for (std::size_t i = kMaxInFlight; i > 0; --i) {
        Op& op = ops_[i - 1];
        op.device = this;
        op.next_free = std::exchange(free_ops_, &op);
    }
}

FileDevice::~FileDevice() {
    reactor_.settle(in_flight_);
    if (slot_ >= 0) reactor_.unregister_file(slot_);
}

bool FileDevice::submit(IoRequest* request) {
    request->succeed();
    if (!check(*request)) return true;
    if (request->kind == IoKind::flush ? read_only_ : request->sectors == 0) return true;
    if (free_ops_ == nullptr) {
        waiting_.push_back(request);
    } else {
        begin(request);
    }
    return false;
}

bool FileDevice::check(IoRequest& request) const {
    if (cut_off_) request.fail(kCutOff);
    if (!request.ok) return false;
    if (request.kind == IoKind::flush) return true;
    if (request.sector > file_.size_sectors ||
        request.sectors > file_.size_sectors - request.sector) {
        request.fail({Errc::invalid, 0, "request beyond the end of the device"});
    } else if (read_only_ && is_write(request.kind)) {
        request.fail({Errc::read_only, EROFS, "the device was opened for reading"});
    } else if (request.kind == IoKind::discard && !file_.discards) {
        request.fail({Errc::unsupported, EOPNOTSUPP, "the device does not discard"});
    }
    return request.ok;
}

void FileDevice::begin(IoRequest* request) {
    Op& op = *free_ops_;
    free_ops_ = op.next_free;
    ++in_flight_;
    op.request = request;
    op.done_bytes = 0;
    op.retries = 0;
    start(op);
}

void FileDevice::start(Op& op) {
    switch (op.request->kind) {
        case IoKind::read:
        case IoKind::write:
            transfer(op);
            break;
        case IoKind::flush:
            sync(op);
            break;
        case IoKind::discard:
            discard_command_ ? discard_range(op) : allocate_range(op);
            break;
        case IoKind::write_zeroes:
            zero_range_ ? allocate_range(op) : transfer(op);
            break;
    }
}

io_uring_sqe* FileDevice::prepare(Op& op) {
    return reactor_.prepare(&op);
}

// After the prep_ call, which resets the flags.
void FileDevice::use_file(io_uring_sqe* sqe) const {
    if (slot_ >= 0) {
        sqe->fd = slot_;
        sqe->flags |= IOSQE_FIXED_FILE;
    } else {
        sqe->fd = file_.fd.get();
    }
}

// Sets the length of the next step and says where its data is.
std::byte* FileDevice::choose_memory(Op& op) {
    const IoRequest& request = *op.request;
    const std::size_t left = op.total_bytes() - op.done_bytes;
    op.bounced = false;
    if (request.kind == IoKind::write_zeroes) {
        if (zeroes_.empty()) zeroes_ = Buffer::zeroed(kPieceBytes);
        op.step_bytes = std::min(left, kPieceBytes);
        return zeroes_.data();
    }
    std::byte* const user = request.data + op.done_bytes;
    op.bounced = file_.direct && reinterpret_cast<std::uintptr_t>(user) % file_.memory_align != 0;
    if (!op.bounced) {
        op.step_bytes = std::min(left, kMaxTransferBytes);
        return user;
    }
    op.step_bytes = std::min(left, kPieceBytes);
    if (op.bounce.size() < op.step_bytes) op.bounce = Buffer(op.step_bytes);
    if (request.kind == IoKind::write) std::memcpy(op.bounce.data(), user, op.step_bytes);
    return op.bounce.data();
}

void FileDevice::transfer(Op& op) {
    std::byte* const memory = choose_memory(op);
    const IoRequest& request = *op.request;
    const std::uint64_t offset = request.sector * kSectorBytes + op.done_bytes;
    const unsigned length = static_cast<unsigned>(op.step_bytes);
    op.step = Op::Step::transfer;
    op.dsync = request.fua && dsync_writes_;
    io_uring_sqe* const sqe = prepare(op);
    if (request.kind == IoKind::read) {
        io_uring_prep_read(sqe, 0, memory, length, offset);
    } else {
        io_uring_prep_write(sqe, 0, memory, length, offset);
        if (op.dsync) sqe->rw_flags = RWF_DSYNC;
    }
    use_file(sqe);
}

void FileDevice::allocate_range(Op& op) {
    const IoRequest& request = *op.request;
    const int mode = FALLOC_FL_KEEP_SIZE | (request.kind == IoKind::discard ? FALLOC_FL_PUNCH_HOLE
                                                                            : FALLOC_FL_ZERO_RANGE);
    op.step = Op::Step::allocate;
    io_uring_sqe* const sqe = prepare(op);
    io_uring_prep_fallocate(sqe, 0, mode, static_cast<off_t>(request.sector * kSectorBytes),
                            static_cast<off_t>(op.total_bytes()));
    use_file(sqe);
}

// Punching holes needs a device that can write zeroes by command; most SATA disks can only discard.
void FileDevice::discard_range(Op& op) {
    op.step = Op::Step::discard_command;
    io_uring_sqe* const sqe = prepare(op);
    io_uring_prep_rw(IORING_OP_URING_CMD, sqe, 0, nullptr, 0, 0);
    sqe->cmd_op = kBlockDiscardCommand;
    sqe->addr = op.request->sector * kSectorBytes;
    sqe->addr3 = op.total_bytes();
    use_file(sqe);
}

void FileDevice::sync(Op& op) {
    op.step = Op::Step::sync;
    io_uring_sqe* const sqe = prepare(op);
    io_uring_prep_fsync(sqe, 0, IORING_FSYNC_DATASYNC);
    use_file(sqe);
}

void FileDevice::completed(Op& op, int result) {
    if (result < 0) {
        failed(op, -result);
        return;
    }
    switch (op.step) {
        case Op::Step::transfer:
            transferred(op, static_cast<std::size_t>(result));
            break;
        case Op::Step::allocate:
            op.dsync = false;
            transfer_done(op);
            break;
        case Op::Step::discard_command:
        case Op::Step::sync:
            finish(op);
            break;
    }
}

void FileDevice::failed(Op& op, int sys) {
    IoRequest& request = *op.request;
    const bool unsupported = sys == EOPNOTSUPP || sys == ENOSYS;
    if ((sys == EINTR || sys == EAGAIN) && op.retries < kMaxRetries) {
        ++op.retries;
        op.step == Op::Step::sync ? sync(op) : start(op);
    } else if (unsupported && op.step == Op::Step::allocate &&
               request.kind == IoKind::write_zeroes) {
        zero_range_ = false;
        transfer(op);
    } else if (op.step == Op::Step::discard_command && (unsupported || sys == EINVAL)) {
        discard_command_ = false;
        allocate_range(op);
    } else if (unsupported && op.step == Op::Step::transfer && op.dsync) {
        dsync_writes_ = false;
        transfer(op);
    } else {
        if (unsupported && request.kind == IoKind::discard) file_.discards = false;
        request.fail(to_error(request.kind, sys));
        finish(op);
    }
}

void FileDevice::transferred(Op& op, std::size_t bytes) {
    IoRequest& request = *op.request;
    // Only the end of a file that shrank gives less than a sector.
    const std::size_t whole = bytes / kSectorBytes * kSectorBytes;
    if (whole == 0) {
        request.fail({Errc::io, 0, kCutOff.what});
        finish(op);
        return;
    }
    if (op.bounced && request.kind == IoKind::read) {
        std::memcpy(request.data + op.done_bytes, op.bounce.data(), whole);
    }
    op.done_bytes += whole;
    if (op.done_bytes < op.total_bytes()) {
        transfer(op);
    } else {
        transfer_done(op);
    }
}

void FileDevice::transfer_done(Op& op) {
    const IoRequest& request = *op.request;
    if (request.fua && !op.dsync && is_write(request.kind)) {
        sync(op);
    } else {
        finish(op);
    }
}

// Somebody has cut the file off. A read behind its end says so; but writes make it grow again, and
// then what was cut off reads as zeroes: so nothing in it can be believed any more.
bool FileDevice::was_cut_off() {
    struct stat status {};
    if (file_.block || cut_off_ || ::fstat(file_.fd.get(), &status) != 0) return cut_off_;
    cut_off_ = static_cast<std::uint64_t>(status.st_size) / kSectorBytes < file_.size_sectors;
    return cut_off_;
}

void FileDevice::finish(Op& op) {
    IoRequest* const request = op.request;
    const bool promises = request->kind == IoKind::flush || request->fua;
    if (promises && request->ok && was_cut_off()) request->fail(kCutOff);
    if (op.bounce.size() > kKeptBounceBytes) op.bounce = Buffer();
    op.next_free = std::exchange(free_ops_, &op);
    --in_flight_;
    request->waiter->wake();
    if (!waiting_.empty()) {
        IoRequest* const next = waiting_.front();
        waiting_.pop_front();
        begin(next);
    }
}

}  // namespace uc::io
