// What opening settles once, so that the request path need not ask:
//  * Exclusive use. The kernel honours O_EXCL for block devices: it fails while the device is
//  mounted
//    or claimed by another driver (also by the kernel's bcache), and they fail while we hold it.
//    Files know only advisory locks; flock() ends with the process, however that ends.
//  * O_DIRECT or not. Some file systems refuse it at open, some at the first read, and some demand
//    more than 512-byte alignment, which the sector-sized requests of the engine cannot promise.
//    All of those get the page cache instead; durability then rests on fdatasync alone, as the
//    contract of BlockDevice allows.
#include "io/file_open.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/stat.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/units.h"
#include "io/buffer.h"
#include "io/device_holder.h"

namespace uc::io {

namespace {

// A number from sysfs; a partition shares the request queue of its disk.
std::uint64_t block_attribute(dev_t device, const std::string& attribute) {
    const std::string base = fmt::format("/sys/dev/block/{}:{}/", major(device), minor(device));
    for (const std::string& path : {base + attribute, base + "../" + attribute}) {
        std::uint64_t value = 0;
        std::ifstream in(path);
        if (in >> value) return value;
    }
    return 0;
}

class Opening {
public:
    Opening(const std::string& path, const OpenOptions& options, std::string* message)
        : path_(path), options_(options), message_(message) {}

    Result<OpenedFile> run();

private:
    tl::unexpected<Error> refuse(Errc code, const char* what, int sys, const std::string& detail);
    tl::unexpected<Error> refuse_errno(int sys);
    Result<void> check_kind();
    Result<void> open_descriptor();
    Result<void> lock_file_behind();
    Result<void> lock();
    Result<void> measure_block_device();
    Result<void> measure_file();
    void settle_direct();
    bool direct_read_works();

    bool is_block() const { return S_ISBLK(status_.st_mode); }
    int fd() const { return opened_.fd.get(); }

    const std::string& path_;
    const OpenOptions& options_;
    std::string* message_;
    struct stat status_ {};
    OpenedFile opened_;
};

tl::unexpected<Error> Opening::refuse(Errc code, const char* what, int sys,
                                      const std::string& detail) {
    if (message_ != nullptr) *message_ = fmt::format("{}: {}", path_, detail);
    return fail(code, what, sys);
}

tl::unexpected<Error> Opening::refuse_errno(int sys) {
    switch (sys) {
        case ENOENT:
        case ENOTDIR:
            return refuse(Errc::not_found, "no such file or device", sys, "no such file or device");
        case ENXIO:
        case ENODEV:
        case ENOMEDIUM:
            return refuse(Errc::not_found, "no such device", sys, "the device is not there");
        case EROFS:
            return refuse(Errc::read_only, "read-only medium", sys, "can only be opened read-only");
        case EACCES:
        case EPERM:
            return refuse(Errc::io, "permission denied", sys, "permission denied");
        case EBUSY:
            return refuse(Errc::busy, "device in use", sys,
                          "in use: " + describe_block_holder(status_.st_rdev));
        default:
            return refuse(Errc::io, "cannot open", sys, std::strerror(sys));
    }
}

Result<void> Opening::check_kind() {
    if (::stat(path_.c_str(), &status_) != 0) return refuse_errno(errno);
    if (S_ISDIR(status_.st_mode)) {
        return refuse(Errc::invalid, "is a directory", EISDIR, "is a directory");
    }
    if (!S_ISREG(status_.st_mode) && !is_block()) {
        return refuse(Errc::invalid, "not storage", 0, "neither a file nor a block device");
    }
    return {};
}

Result<void> Opening::open_descriptor() {
    int flags = O_CLOEXEC | (options_.read_only ? O_RDONLY : O_RDWR);
    if (is_block() && options_.exclusive) flags |= O_EXCL;
    int opened = -1;
    if (options_.try_direct) {
        opened = ::open(path_.c_str(), flags | O_DIRECT);
        opened_.direct = opened >= 0;
        if (opened < 0 && errno != EINVAL) return refuse_errno(errno);
    }
    if (opened < 0) opened = ::open(path_.c_str(), flags);
    if (opened < 0) return refuse_errno(errno);
    opened_.fd = Descriptor(opened);
    // The path may have been replaced since it was looked at.
    if (::fstat(opened, &status_) != 0) return refuse_errno(errno);
    return {};
}

// A file and a loop device on it are one device, but neither's lock knows of the other. So a loop
// device also takes the file's lock: shared, for its partitions may be several devices.
Result<void> Opening::lock_file_behind() {
    const std::string file = file_behind(status_.st_rdev);
    if (file.empty()) return {};
    opened_.behind = Descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (opened_.behind.get() < 0) return {};  // it is not where it was: nobody else can open it
    if (::flock(opened_.behind.get(), LOCK_SH | LOCK_NB) == 0) return {};
    return refuse(Errc::busy, "file in use", EWOULDBLOCK,
                  fmt::format("the file behind it, {}, is in use by another process", file));
}

Result<void> Opening::lock() {
    if (!options_.exclusive) return {};
    if (is_block()) return lock_file_behind();
    if (const std::string loop = loop_device_on(path_); !loop.empty()) {
        return refuse(Errc::busy, "file in use", EBUSY, "in use by the loop device " + loop);
    }
    const int operation = options_.read_only ? LOCK_SH : LOCK_EX;
    if (::flock(fd(), operation | LOCK_NB) == 0) return {};
    if (errno != EWOULDBLOCK) return refuse_errno(errno);
    return refuse(Errc::busy, "file in use", EWOULDBLOCK,
                  "in use: " + describe_file_locker(status_.st_dev, status_.st_ino));
}

Result<void> Opening::measure_block_device() {
    std::uint64_t bytes = 0;
    int logical_bytes = 0;
    unsigned physical_bytes = 0;
    unsigned optimal_bytes = 0;
    if (::ioctl(fd(), BLKGETSIZE64, &bytes) != 0 || ::ioctl(fd(), BLKSSZGET, &logical_bytes) != 0) {
        return refuse_errno(errno);
    }
    if (::ioctl(fd(), BLKPBSZGET, &physical_bytes) != 0) physical_bytes = 0;
    if (::ioctl(fd(), BLKIOOPT, &optimal_bytes) != 0) optimal_bytes = 0;
    int write_protected = 0;
    // The kernel lets one open a write-protected device for writing; only the writes fail.
    if (!options_.read_only && ::ioctl(fd(), BLKROGET, &write_protected) == 0 &&
        write_protected != 0) {
        return refuse_errno(EROFS);
    }
    const auto sectors = [](std::uint64_t n) {
        return static_cast<std::uint32_t>(n / kSectorBytes);
    };
    opened_.size_sectors = bytes / kSectorBytes;
    opened_.logical_block_sectors =
        std::max(1U, sectors(static_cast<std::uint64_t>(logical_bytes)));
    opened_.atomic_sectors = std::max(opened_.logical_block_sectors, sectors(physical_bytes));
    opened_.optimal_io_sectors = sectors(optimal_bytes);
    opened_.block = true;
    opened_.discards = block_attribute(status_.st_rdev, "queue/discard_max_bytes") > 0;
    return {};
}

Result<void> Opening::measure_file() {
    opened_.size_sectors = static_cast<std::uint64_t>(status_.st_size) / kSectorBytes;
    opened_.discards = true;  // until the file system says no
    return {};
}

bool Opening::direct_read_works() {
    Buffer sector(kSectorBytes);
    return ::pread(fd(), sector.data(), sector.size(), 0) >= 0 || errno != EINVAL;
}

void Opening::settle_direct() {
    if (!opened_.direct) return;
    std::uint32_t offset_align = kSectorBytes;
    opened_.memory_align = kSectorBytes;
    struct statx extended {};
    if (::statx(fd(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &extended) == 0 &&
        (extended.stx_mask & STATX_DIOALIGN) != 0) {
        offset_align = extended.stx_dio_offset_align;  // 0: not possible
        opened_.memory_align = std::max(1U, extended.stx_dio_mem_align);
    }
    if (offset_align != 0 && offset_align <= kSectorBytes && opened_.logical_block_sectors == 1 &&
        opened_.memory_align <= Buffer::kAlign && direct_read_works()) {
        return;
    }
    const int flags = ::fcntl(fd(), F_GETFL);
    opened_.direct = flags < 0 || ::fcntl(fd(), F_SETFL, flags & ~O_DIRECT) != 0;
}

Result<OpenedFile> Opening::run() {
    TRY_OK(check_kind());
    TRY_OK(open_descriptor());
    TRY_OK(lock());
    TRY_OK(is_block() ? measure_block_device() : measure_file());
    if (opened_.size_sectors == 0) {
        return refuse(Errc::invalid, "too small", 0, "too small: less than one sector");
    }
    settle_direct();
    return std::move(opened_);
}

}  // namespace

Descriptor::~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
}

Result<OpenedFile> open_file(const std::string& path, const OpenOptions& options,
                             std::string* message) {
    return Opening(path, options, message).run();
}

}  // namespace uc::io
