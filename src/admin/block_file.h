// A device or image file as the offline tools use it: opened, locked, read and written
// synchronously. (The daemon uses io/file_device.h.)
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "io/file_open.h"

namespace uc::admin {

class BlockFile {
public:
    enum class Access : std::uint8_t {
        read,   // shared with whoever has it open
        write,  // alone: O_EXCL for block devices, a lock for files
    };

    // Errc::busy: somebody else holds it (`holder` names who, as far as that can be found out);
    // Errc::io with `sys` for the rest.
    static Result<BlockFile> open(const std::string& path, Access access, std::string* holder);

    BlockFile(BlockFile&& other) noexcept;
    BlockFile& operator=(BlockFile&& other) noexcept;
    ~BlockFile();

    int fd() const { return fd_; }
    const std::string& path() const { return path_; }
    std::uint64_t size_bytes() const { return size_; }

    // Bytes read: fewer than asked for only at the end of the device.
    Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> out) const;
    Result<void> write(std::uint64_t offset, std::span<const std::byte> in) const;
    Result<void> sync() const;

private:
    BlockFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
    bool lock_file_behind(dev_t device);

    int fd_ = -1;
    std::string path_;
    io::Descriptor behind_;  // of a loop device: the file, locked
    std::uint64_t size_ = 0;
};

// The block size in bytes that the format tools assume: the logical block size of a device, the
// preferred I/O size of a plain file. Errc::io with the errno of stat.
Result<std::uint32_t> natural_block_bytes(const std::string& path);

// Who uses the block device or file: mount points, kernel holders such as a running bcache, loop
// devices. Empty: nobody that can be found.
std::string holder_of(const std::string& path);

}  // namespace uc::admin
