#include "core/range_set.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"

namespace uc::core {
namespace {

TEST(RangeSet, JoinsRangesThatTouch) {
    RangeSet set;
    set.add(0, 8);
    set.add(16, 24);
    set.add(8, 16);
    EXPECT_EQ(set.ranges(), (std::vector<SectorRange>{{0, 24}}));
}

TEST(RangeSet, RemovingTheMiddleLeavesBothEnds) {
    RangeSet set;
    set.add(0, 24);
    set.remove(8, 16);
    EXPECT_EQ(set.ranges(), (std::vector<SectorRange>{{0, 8}, {16, 24}}));
    EXPECT_FALSE(set.overlaps(8, 16));
    EXPECT_TRUE(set.overlaps(7, 9));
}

TEST(RangeSet, AgreesWithASetOfSectors) {
    Rng rng(7);
    RangeSet set;
    std::set<std::uint64_t> model;
    for (int step = 0; step < 2000; ++step) {
        const std::uint64_t from = rng.below(64);
        const std::uint64_t to = from + rng.below(12);
        if (rng.percent(50)) {
            set.add(from, to);
            for (std::uint64_t s = from; s < to; ++s) model.insert(s);
        } else {
            set.remove(from, to);
            for (std::uint64_t s = from; s < to; ++s) model.erase(s);
        }
        std::set<std::uint64_t> sectors;
        for (const SectorRange& r : set.ranges()) {
            for (std::uint64_t s = r.from; s < r.to; ++s) ASSERT_TRUE(sectors.insert(s).second);
        }
        ASSERT_EQ(sectors, model);
        const auto next = model.lower_bound(from);
        ASSERT_EQ(set.overlaps(from, to), next != model.end() && *next < to);
    }
}

}  // namespace
}  // namespace uc::core
