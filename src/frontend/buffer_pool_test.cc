#include "frontend/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace uc::frontend {
namespace {

TEST(BufferPool, GivesAlignedBuffersOfAtLeastTheSizeAskedFor) {
    BufferPool pool(1 << 20);
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{4097},
                                    std::size_t{1} << 20, BufferPool::kLargest}) {
        PooledBuffer buffer = pool.take(bytes);
        EXPECT_GE(buffer.size(), bytes);
        EXPECT_EQ(buffer.size(), BufferPool::size_of(bytes));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % io::Buffer::kAlign, 0u);
    }
    EXPECT_EQ(pool.take(0).size(), 0u);
    EXPECT_EQ(BufferPool::size_of(0), 0u);
}

TEST(BufferPool, UsesABufferAgain) {
    BufferPool pool(1 << 20);
    PooledBuffer first = pool.take(5000);
    const std::byte* const at = first.data();
    first.release();
    EXPECT_EQ(pool.kept_bytes(), 8192u);
    EXPECT_EQ(pool.take(8000).data(), at);
}

TEST(BufferPool, KeepsNoMoreThanItsLimit) {
    BufferPool pool(10000);
    {
        PooledBuffer a = pool.take(4096);
        PooledBuffer b = pool.take(4096);
        PooledBuffer c = pool.take(4096);
        PooledBuffer large = pool.take(1 << 20);
    }
    EXPECT_EQ(pool.kept_bytes(), 8192u);
}

}  // namespace
}  // namespace uc::frontend
