#include "frontend/buffer_pool.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace uc::frontend {

void PooledBuffer::release() {
    if (pool_ == nullptr) return;
    std::exchange(pool_, nullptr)->put(std::move(buffer_));
    buffer_ = io::Buffer();
}

std::size_t BufferPool::size_of(std::size_t bytes) {
    CHECK(bytes <= kLargest);
    if (bytes == 0) return 0;
    return std::max(std::bit_ceil(bytes), std::size_t{1} << kSmallestShift);
}

PooledBuffer BufferPool::take(std::size_t bytes) {
    const std::size_t size = size_of(bytes);
    if (size == 0) return {};
    std::vector<io::Buffer>& unused =
        unused_[static_cast<unsigned>(std::countr_zero(size)) - kSmallestShift];
    if (unused.empty()) return PooledBuffer(this, io::Buffer(size));
    io::Buffer buffer = std::move(unused.back());
    unused.pop_back();
    kept_bytes_ -= size;
    return PooledBuffer(this, std::move(buffer));
}

void BufferPool::put(io::Buffer buffer) {
    const std::size_t size = buffer.size();
    if (kept_bytes_ + size > keep_bytes_) return;
    kept_bytes_ += size;
    unused_[static_cast<unsigned>(std::countr_zero(size)) - kSmallestShift].push_back(
        std::move(buffer));
}

}  // namespace uc::frontend
