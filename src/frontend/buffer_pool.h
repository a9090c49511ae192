// Data buffers for requests, reused by size class (powers of two from 4 KiB), so that steady
// traffic allocates nothing. One pool per front end; not for more than one thread.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "io/buffer.h"

namespace uc::frontend {

class BufferPool;

// A buffer of at least the size asked for, 4096-byte aligned; goes back to its pool when destroyed.
class PooledBuffer {
public:
    PooledBuffer() = default;
    PooledBuffer(PooledBuffer&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), buffer_(std::move(other.buffer_)) {}
    PooledBuffer& operator=(PooledBuffer&& other) noexcept {
        std::swap(pool_, other.pool_);
        std::swap(buffer_, other.buffer_);
        return *this;
    }
    ~PooledBuffer() { release(); }

    void release();
    std::byte* data() { return buffer_.data(); }
    std::size_t size() const { return buffer_.size(); }
    std::span<std::byte> first(std::size_t bytes) { return buffer_.span().first(bytes); }
    std::span<const std::byte> first(std::size_t bytes) const {
        return buffer_.span().first(bytes);
    }

private:
    friend class BufferPool;
    PooledBuffer(BufferPool* pool, io::Buffer buffer) : pool_(pool), buffer_(std::move(buffer)) {}

    BufferPool* pool_ = nullptr;
    io::Buffer buffer_;
};

class BufferPool {
public:
    static constexpr std::size_t kLargest = std::size_t{32} << 20;

    // Keeps at most `keep_bytes` of unused buffers; the rest goes back to the heap.
    explicit BufferPool(std::size_t keep_bytes) : keep_bytes_(keep_bytes) {}
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    // Uninitialised, or with what an earlier request left: overwrite it before it leaves the
    // process. `bytes` <= kLargest; 0 gives an empty buffer.
    PooledBuffer take(std::size_t bytes);
    // Of the buffer that take() gives.
    static std::size_t size_of(std::size_t bytes);
    std::size_t kept_bytes() const { return kept_bytes_; }

private:
    friend class PooledBuffer;
    static constexpr unsigned kSmallestShift = 12;
    static constexpr unsigned kClasses = 25 - kSmallestShift + 1;

    void put(io::Buffer buffer);

    std::size_t keep_bytes_;
    std::size_t kept_bytes_ = 0;
    std::array<std::vector<io::Buffer>, kClasses> unused_;
};

}  // namespace uc::frontend
