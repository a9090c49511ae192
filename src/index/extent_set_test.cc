#include "index/extent_set.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"

namespace uc::index {
namespace {

using ondisk::Key;
using ondisk::Ptr;

// Model: which cache sector (or 0 = none) each sector maps to.
TEST(ExtentSet, AgreesWithAPerSectorMapUnderRandomOverrides) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Rng rng(seed);
        ExtentSet set;
        std::map<std::uint64_t, std::uint64_t> model;
        for (int step = 0; step < 60; ++step) {
            const std::uint64_t start = rng.below(100);
            const std::uint32_t size = 1 + static_cast<std::uint32_t>(rng.below(30));
            const std::uint64_t at = 1000 + rng.below(8) * 1024 + rng.below(100);
            const Key key = Key::extent(1, start + size, size, Ptr::make(at, Gen(1)), false);
            std::map<std::uint64_t, std::uint64_t> removed;
            set.insert(key, 1024, [&](const Key& part) {
                for (std::uint64_t i = 0; i < part.size(); ++i) {
                    removed[part.start() + i] = part.ptr().sector() + i;
                }
            });
            std::map<std::uint64_t, std::uint64_t> expected;
            for (std::uint64_t i = 0; i < size; ++i) {
                const auto it = model.find(start + i);
                if (it != model.end()) expected[it->first] = it->second;
                model[start + i] = at + i;
            }
            ASSERT_EQ(removed, expected) << "seed " << seed;
        }
        std::map<std::uint64_t, std::uint64_t> flat;
        std::uint64_t last_end = 0;
        for (const Key& key : set) {
            ASSERT_GE(key.start(), last_end);
            last_end = key.end();
            for (std::uint64_t i = 0; i < key.size(); ++i) {
                flat[key.start() + i] = key.ptr().sector() + i;
            }
        }
        ASSERT_EQ(flat, model) << "seed " << seed;
    }
}

TEST(ExtentSet, JoinsWhatContinuesInTheSameBucketOnly) {
    ExtentSet set;
    const auto ignore = [](const Key&) {};
    set.insert(Key::extent(0, 8, 8, Ptr::make(1016, Gen(1)), true), 1024, ignore);
    set.insert(Key::extent(0, 16, 8, Ptr::make(1024, Gen(1)), true), 1024, ignore);
    EXPECT_EQ(set.size(), 2u);
    set.insert(Key::extent(0, 24, 8, Ptr::make(1032, Gen(1)), true), 1024, ignore);
    EXPECT_EQ(set.size(), 2u);
    set.insert(Key::extent(0, 32, 8, Ptr::make(1040, Gen(1)), false), 1024, ignore);
    EXPECT_EQ(set.size(), 3u);
}

TEST(ExtentSet, CutAtSplitsWithTheAdvancedPointer) {
    ExtentSet set;
    const auto ignore = [](const Key&) {};
    set.insert(Key::extent(0, 100, 100, Ptr::make(2000, Gen(1)), true), 1024, ignore);
    set.cut_at({0, 30});
    ExtentSet low;
    set.move_low({0, 30}, low);
    ASSERT_EQ(low.size(), 1u);
    ASSERT_EQ(set.size(), 1u);
    EXPECT_EQ(low.begin()->end(), 30u);
    EXPECT_EQ(set.begin()->start(), 30u);
    EXPECT_EQ(set.begin()->ptr().sector(), 2030u);
}

}  // namespace
}  // namespace uc::index
