#include "async/range_lock.h"

#include <gtest/gtest.h>

#include <string>

namespace uc::async {
namespace {

struct World {
    ~World() { executor.drop_all(); }

    Executor executor;
    RangeLock lock;
    Event release;
    std::string trace;

    void start(std::uint64_t from, std::uint64_t to, char name);
    void let_go() {
        release.notify();
        executor.run_ready();
    }
};

// Upper case: got the range; lower case: let it go.
Task<void> hold_range(World& world, std::uint64_t from, std::uint64_t to, char name) {
    RangeLock::Hold hold(world.lock, from, to);
    co_await hold.acquire();
    world.trace += name;
    co_await world.release.wait();
    world.trace += static_cast<char>(name - 'A' + 'a');
}

void World::start(std::uint64_t from, std::uint64_t to, char name) {
    executor.spawn(hold_range(*this, from, to, name));
    executor.run_ready();
}

TEST(RangeLock, DisjointRangesAreHeldTogether) {
    World world;
    world.start(0, 8, 'A');
    world.start(8, 16, 'B');
    EXPECT_EQ(world.trace, "AB");
}

TEST(RangeLock, OverlappingRangeWaitsForTheHolder) {
    World world;
    world.start(0, 8, 'A');
    world.start(7, 9, 'B');
    EXPECT_EQ(world.trace, "A");
    world.let_go();
    EXPECT_EQ(world.trace, "AaB");
}

// Otherwise a stream of small requests could starve a large one.
TEST(RangeLock, LaterRequestDoesNotOvertakeAWaiterThatItOverlaps) {
    World world;
    world.start(0, 8, 'A');
    world.start(4, 12, 'B');
    world.start(10, 14, 'C');
    EXPECT_EQ(world.trace, "A") << "C overlaps only B, which came first";
    world.let_go();
    EXPECT_EQ(world.trace, "AaB");
    world.let_go();
    EXPECT_EQ(world.trace, "AaBbC");
}

TEST(RangeLock, ReleaseGrantsEveryWaiterThatFits) {
    World world;
    world.start(0, 100, 'A');
    world.start(0, 10, 'B');
    world.start(10, 20, 'C');
    world.start(5, 15, 'D');
    world.let_go();
    EXPECT_EQ(world.trace, "AaBC");
    world.let_go();
    EXPECT_EQ(world.trace, "AaBCbcD");
}

TEST(RangeLock, WaitersCountAsOverlap) {
    World world;
    world.start(0, 8, 'A');
    world.start(4, 12, 'B');
    EXPECT_TRUE(world.lock.overlaps(8, 12));
    EXPECT_FALSE(world.lock.overlaps(12, 20));
}

TEST(RangeLock, HoldIsQueuedWhenItIsConstructed) {
    RangeLock lock;
    const RangeLock::Hold first(lock, 0, 8);
    EXPECT_TRUE(first.granted());
    const RangeLock::Hold second(lock, 0, 8);
    EXPECT_FALSE(second.granted());
    EXPECT_TRUE(lock.overlaps(0, 1));
}

TEST(RangeLock, EmptyRangeWaitsForNobody) {
    RangeLock lock;
    const RangeLock::Hold first(lock, 0, 8);
    const RangeLock::Hold empty(lock, 8, 8);
    EXPECT_TRUE(empty.granted());
    EXPECT_FALSE(lock.overlaps(8, 8));
}

TEST(RangeLock, IsIdleWhenEverybodyIsGone) {
    World world;
    EXPECT_TRUE(world.lock.idle());
    world.start(0, 8, 'A');
    world.start(0, 8, 'B');
    EXPECT_FALSE(world.lock.idle());
    world.let_go();
    world.let_go();
    EXPECT_TRUE(world.lock.idle());
}

TEST(RangeLock, CrashMayDestroyHoldersAndWaitersInAnyOrder) {
    World world;
    for (char name = 'A'; name < 'F'; ++name) world.start(0, 8, name);
    world.executor.drop_all();
    EXPECT_TRUE(world.lock.idle());
    EXPECT_EQ(world.trace, "A");
}

}  // namespace
}  // namespace uc::async
