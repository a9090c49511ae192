#include "sim/sim_clock.h"

#include <gtest/gtest.h>

#include <vector>

namespace uc::sim {
namespace {

struct Mark final : io::Timer {
    Mark(std::vector<int>& out, int number) : fired(out), id(number) {}
    void fire() override { fired.push_back(id); }
    std::vector<int>& fired;
    int id;
};

TEST(SimClock, FiresInOrderOfTimeAndThenOfArming) {
    SimClock clock;
    std::vector<int> fired;
    Mark a(fired, 1);
    Mark b(fired, 2);
    Mark c(fired, 3);
    a.due = Instant{std::chrono::seconds(2)};
    b.due = Instant{std::chrono::seconds(1)};
    c.due = Instant{std::chrono::seconds(2)};
    clock.arm(&a);
    clock.arm(&b);
    clock.arm(&c);
    while (clock.has_timer()) clock.fire_next();
    EXPECT_EQ(fired, (std::vector<int>{2, 1, 3}));
    EXPECT_EQ(clock.now(), Instant{std::chrono::seconds(2)});
    EXPECT_EQ(clock.wall_seconds(), SimClock::kWallStart + 2);
}

TEST(SimClock, CancelledTimersDoNotFire) {
    SimClock clock;
    std::vector<int> fired;
    Mark a(fired, 1);
    clock.arm(&a);
    clock.cancel(&a);
    clock.cancel(&a);
    EXPECT_FALSE(clock.has_timer());
    EXPECT_FALSE(a.armed);
}

}  // namespace
}  // namespace uc::sim
