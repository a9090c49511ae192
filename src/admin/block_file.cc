// Exclusive use. A block device opened with O_EXCL is refused by the kernel while it is mounted,
// part of an array, or registered with the kernel's bcache. Files have no such thing: there a
// flock() stands for it, which every program of ours takes. A file behind a loop device is refused
// as well, because the loop device's user knows nothing of that lock.
#include "admin/block_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/device_holder.h"

namespace uc::admin {

namespace {

Result<std::uint64_t> size_of(int fd, const struct stat& info) {
    if (S_ISREG(info.st_mode)) return static_cast<std::uint64_t>(info.st_size);
    std::uint64_t bytes = 0;
    if (S_ISBLK(info.st_mode) && ioctl(fd, BLKGETSIZE64, &bytes) != 0) {
        return fail(Errc::io, "cannot read its size", errno);
    }
    return bytes;
}

}  // namespace

std::string holder_of(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return {};
    if (S_ISBLK(info.st_mode)) return io::describe_block_holder(info.st_rdev);
    const std::string loop = io::loop_device_on(path);
    return loop.empty() ? std::string() : "used by the loop device " + loop;
}

Result<BlockFile> BlockFile::open(const std::string& path, Access access, std::string* holder) {
    struct stat info {};
    const bool block = stat(path.c_str(), &info) == 0 && S_ISBLK(info.st_mode);
    const bool writing = access == Access::write;
    const int flags = (writing ? O_RDWR : O_RDONLY) | O_CLOEXEC | (writing && block ? O_EXCL : 0);
    const int fd = ::open(path.c_str(), flags);
    if (fd < 0) {
        const int error = errno;
        if (error == EBUSY) *holder = holder_of(path);
        return fail(error == EBUSY ? Errc::busy : Errc::io, "cannot open", error);
    }
    BlockFile file(fd, path);
    if (fstat(fd, &info) != 0) return fail(Errc::io, "cannot stat", errno);
    TRY(file.size_, size_of(fd, info));
    if (!writing) return file;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        *holder = io::describe_file_locker(info.st_dev, info.st_ino);
        return fail(Errc::busy, "locked", EBUSY);
    }
    if (block && !file.lock_file_behind(info.st_rdev)) {
        *holder = "the file behind it is in use by another process";
        return fail(Errc::busy, "locked", EBUSY);
    }
    *holder = block ? std::string() : holder_of(path);
    if (!holder->empty()) return fail(Errc::busy, "in use", EBUSY);
    return file;
}

// As io/file_open.cc does it, for the same reason.
bool BlockFile::lock_file_behind(dev_t device) {
    const std::string path = io::file_behind(device);
    if (path.empty()) return true;
    behind_ = io::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return behind_.get() < 0 || flock(behind_.get(), LOCK_SH | LOCK_NB) == 0;
}

BlockFile::BlockFile(BlockFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      behind_(std::move(other.behind_)),
      size_(other.size_) {}

BlockFile& BlockFile::operator=(BlockFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    std::swap(behind_, other.behind_);
    std::swap(size_, other.size_);
    return *this;
}

BlockFile::~BlockFile() {
    if (fd_ >= 0) close(fd_);
}

Result<std::size_t> BlockFile::read(std::uint64_t offset, std::span<std::byte> out) const {
    std::size_t done = 0;
    while (done < out.size()) {
        const ssize_t got =
            pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(Errc::io, "read failed", errno);
        if (got == 0) break;
        done += static_cast<std::size_t>(got);
    }
    return done;
}

Result<void> BlockFile::write(std::uint64_t offset, std::span<const std::byte> in) const {
    std::size_t done = 0;
    while (done < in.size()) {
        const ssize_t put =
            pwrite(fd_, in.data() + done, in.size() - done, static_cast<off_t>(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return fail(Errc::io, "write failed", put < 0 ? errno : ENOSPC);
        done += static_cast<std::size_t>(put);
    }
    return {};
}

Result<void> BlockFile::sync() const {
    if (fsync(fd_) != 0) return fail(Errc::io, "fsync failed", errno);
    return {};
}

Result<std::uint32_t> natural_block_bytes(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return fail(Errc::io, "cannot stat", errno);
    if (!S_ISBLK(info.st_mode)) return static_cast<std::uint32_t>(info.st_blksize);
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(Errc::io, "cannot open", errno);
    int bytes = 512;
    const bool ok = ioctl(fd, BLKSSZGET, &bytes) == 0;
    const int error = errno;
    close(fd);
    if (!ok) return fail(Errc::io, "cannot read its block size", error);
    return static_cast<std::uint32_t>(bytes);
}

}  // namespace uc::admin
