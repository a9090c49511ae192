#include "async/frame_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace uc::async {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kPooled = false;
#else
constexpr bool kPooled = true;
#endif

TEST(FramePool, HandsAFreedFrameOutAgain) {
    if (!kPooled) GTEST_SKIP() << "no pool under the address sanitizer";
    void* const first = allocate_frame(300);
    free_frame(first, 300);
    void* const second = allocate_frame(290);  // the same class of 64 bytes
    EXPECT_EQ(second, first);
    free_frame(second, 290);
}

TEST(FramePool, KeepsSizeClassesApart) {
    if (!kPooled) GTEST_SKIP() << "no pool under the address sanitizer";
    void* const small = allocate_frame(64);
    free_frame(small, 64);
    void* const large = allocate_frame(65);
    EXPECT_NE(large, small);
    free_frame(large, 65);
}

TEST(FramePool, LiveFramesDoNotOverlap) {
    std::vector<unsigned char*> frames;
    std::vector<std::size_t> sizes;
    for (std::size_t bytes = 1; bytes < 5000; bytes += 37) {
        auto* const frame = static_cast<unsigned char*>(allocate_frame(bytes));
        std::memset(frame, static_cast<int>(bytes & 255), bytes);
        frames.push_back(frame);
        sizes.push_back(bytes);
    }
    for (std::size_t i = 0; i < frames.size(); ++i) {
        EXPECT_EQ(frames[i][0], sizes[i] & 255);
        EXPECT_EQ(frames[i][sizes[i] - 1], sizes[i] & 255);
        free_frame(frames[i], sizes[i]);
    }
}

TEST(FramePool, IsLastInFirstOut) {
    if (!kPooled) GTEST_SKIP() << "no pool under the address sanitizer";
    std::vector<void*> frames;
    for (int i = 0; i < 8; ++i) frames.push_back(allocate_frame(1000));
    for (void* const frame : frames) free_frame(frame, 1000);
    void* const last = allocate_frame(1000);
    EXPECT_EQ(last, frames.back()) << "the warmest frame comes first";
    free_frame(last, 1000);
}

}  // namespace
}  // namespace uc::async
