#include "frontend/buffer_pool.h"

#include <bit>

#include "base/check.h"

namespace uc::frontend {

void PooledBuffer::release() {
    if (pool_ == nullptr) return;
    std::exchange(pool_, nullptr)->put(std::move(buffer_));
    buffer_ = io::Buffer();
}

PooledBuffer BufferPool::take(std::size_t bytes) {
    CHECK(bytes <= kLargest);
    if (bytes == 0) return {};
    const std::size_t rounded = std::bit_ceil(bytes) >> kSmallestShift << kSmallestShift;
    const std::size_t size = rounded == 0 ? std::size_t{1} << kSmallestShift : rounded;
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
