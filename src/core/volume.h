// What front ends see: one virtual block device. Implemented by a cached backing device, a
// flash-only volume and, in tests, by plain memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "async/task.h"
#include "base/result.h"

namespace uc::core {

struct WriteFlags {
    bool fua = false;       // durable when it completes
    bool priority = false;  // metadata or high priority: worth caching in any case
};

// All calls may suspend; buffers stay valid until the call returns. Sectors are 512 bytes, counted
// from the start of the virtual device. A request beyond its end fails with Errc::invalid. Any
// alignment to 512 bytes is accepted. Requests may overlap and be in flight together in any number;
// overlapping writes take effect in one order. A request may be as long as the caller likes (front
// ends keep to 32 MiB).
class Volume {
public:
    virtual ~Volume() = default;

    virtual Task<Result<void>> read(std::uint64_t sector, std::span<std::byte> out) = 0;
    virtual Task<Result<void>> write(std::uint64_t sector, std::span<const std::byte> in,
                                     WriteFlags flags) = 0;
    // Everything that completed before this call is durable when it returns, no matter through
    // which connection or task it came (so multi-conn is safe).
    virtual Task<Result<void>> flush() = 0;
    // The contents of the range become undefined (zeroes on flash-only volumes).
    virtual Task<Result<void>> discard(std::uint64_t sector, std::uint64_t sectors) = 0;
    virtual Task<Result<void>> write_zeroes(std::uint64_t sector, std::uint64_t sectors,
                                            WriteFlags flags) = 0;

    virtual std::uint64_t size_sectors() const = 0;
    // Preferred granularity (the cache's block size); 512-byte requests work nevertheless.
    virtual std::uint32_t block_sectors() const = 0;
    virtual bool read_only() const = 0;
    // Name for exports and messages: the label, else "bcache<N>".
    virtual const std::string& name() const = 0;
};

}  // namespace uc::core
