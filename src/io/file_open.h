// Opening a regular file or block device as storage: locking, O_DIRECT where possible, geometry,
// and one clear line of explanation if it cannot be done.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace uc::io {

struct OpenOptions {
    bool read_only = false;
    // Refuse a device that somebody else uses: O_EXCL for block devices (mounts and kernel drivers
    // count), a lock for files (shared between readers).
    bool exclusive = true;
    // Bypass the page cache where the file system and the sector size allow it.
    bool try_direct = true;
};

// Owns a file descriptor.
class Descriptor {
public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Descriptor();
    int get() const { return fd_; }

private:
    int fd_ = -1;
};

struct OpenedFile {
    Descriptor fd;
    Descriptor behind;  // of a loop device: the file, locked
    std::uint64_t size_sectors = 0;
    std::uint32_t logical_block_sectors = 1;
    std::uint32_t atomic_sectors = 1;
    std::uint32_t optimal_io_sectors = 0;
    std::uint32_t memory_align = 1;  // of user memory, if direct
    bool block = false;
    bool direct = false;
    bool discards = false;
};

// `message` gets one line for a human, which begins with the path. May be null.
// Errc: not_found, invalid (not storage, or too small), busy, read_only, io (`sys`).
Result<OpenedFile> open_file(const std::string& path, const OpenOptions& options,
                             std::string* message);

}  // namespace uc::io
