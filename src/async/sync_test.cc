#include "async/sync.h"

#include <gtest/gtest.h>

#include <string>

namespace uc::async {
namespace {

struct World {
    ~World() { executor.drop_all(); }

    Executor executor;
    Event event;
    Semaphore semaphore{2};
    TaskGroup group{executor};
    std::string trace;

    void run(Task<void> task) {
        executor.spawn(std::move(task));
        executor.run_ready();
    }
};

Task<void> wait_for(World& world, char name) {
    co_await world.event.wait();
    world.trace += name;
}

TEST(Event, NotifyWakesEverybodyWhoWaitsInOrder) {
    World world;
    world.run(wait_for(world, 'a'));
    world.run(wait_for(world, 'b'));
    EXPECT_TRUE(world.event.has_waiters());
    world.event.notify();
    EXPECT_EQ(world.trace, "") << "nobody is resumed inside notify()";
    world.executor.run_ready();
    EXPECT_EQ(world.trace, "ab");
}

TEST(Event, NotifyIsNotRememberedForLaterWaits) {
    World world;
    world.event.notify();
    world.run(wait_for(world, 'a'));
    EXPECT_EQ(world.trace, "");
    EXPECT_TRUE(world.event.has_waiters());
}

Task<void> wait_twice(World& world) {
    co_await world.event.wait();
    world.trace += '1';
    co_await world.event.wait();
    world.trace += '2';
}

TEST(Event, SecondWaitNeedsASecondNotify) {
    World world;
    world.run(wait_twice(world));
    world.event.notify();
    world.executor.run_ready();
    EXPECT_EQ(world.trace, "1");
    world.event.notify();
    world.executor.run_ready();
    EXPECT_EQ(world.trace, "12");
}

TEST(Event, DestroyedWaiterLeavesTheQueue) {
    World world;
    world.run(wait_for(world, 'a'));
    world.executor.drop_all();
    EXPECT_FALSE(world.event.has_waiters());
    world.event.notify();
    world.executor.run_ready();
    EXPECT_EQ(world.trace, "");
}

Task<void> take(World& world, char name) {
    co_await world.semaphore.acquire();
    world.trace += name;
}

TEST(Semaphore, AdmitsAsManyAsItHasPermits) {
    World world;
    for (const char name : {'a', 'b', 'c', 'd'}) world.run(take(world, name));
    EXPECT_EQ(world.trace, "ab");
    world.semaphore.release();
    world.executor.run_ready();
    EXPECT_EQ(world.trace, "abc");
    world.semaphore.release();
    world.executor.run_ready();
    EXPECT_EQ(world.trace, "abcd");
}

TEST(Semaphore, NobodyOvertakesTheOneThatWasWoken) {
    World world;
    for (const char name : {'a', 'b', 'c'}) world.run(take(world, name));
    world.semaphore.release();  // the permit is c's, though c has not run yet
    EXPECT_FALSE(world.semaphore.try_acquire());
    world.run(take(world, 'd'));
    EXPECT_EQ(world.trace, "abc");
}

TEST(Semaphore, TryAcquireTakesAFreePermit) {
    Semaphore semaphore(1);
    EXPECT_TRUE(semaphore.try_acquire());
    EXPECT_FALSE(semaphore.try_acquire());
    semaphore.release();
    EXPECT_TRUE(semaphore.try_acquire());
}

TEST(Mutex, GuardUnlocksAtTheEndOfItsScope) {
    Mutex mutex;
    ASSERT_TRUE(mutex.try_lock());
    {
        const Mutex::Guard guard(mutex);
        EXPECT_FALSE(mutex.try_lock());
    }
    EXPECT_TRUE(mutex.try_lock());
}

Task<void> wait_until_drained(World& world) {
    co_await world.group.drained();
    world.trace += '.';
}

TEST(TaskGroup, DrainsWhenTheLastTaskHasEnded) {
    World world;
    world.group.spawn(wait_for(world, 'a'));
    world.group.spawn(take(world, 'b'));
    EXPECT_EQ(world.group.running(), 2u);
    EXPECT_EQ(world.trace, "") << "spawn() runs nothing";
    world.run(wait_until_drained(world));
    EXPECT_EQ(world.trace, "b");
    EXPECT_EQ(world.group.running(), 1u);
    world.event.notify();
    world.executor.run_ready();
    EXPECT_EQ(world.trace, "ba.");
}

TEST(TaskGroup, EmptyGroupIsDrainedAtOnce) {
    World world;
    world.run(wait_until_drained(world));
    EXPECT_EQ(world.trace, ".");
}

Task<void> spawn_another(World& world) {
    world.trace += '1';
    world.group.spawn(wait_for(world, '2'));
    co_return;
}

TEST(TaskGroup, WaitsForTasksThatItsTasksSpawned) {
    World world;
    world.group.spawn(spawn_another(world));
    world.run(wait_until_drained(world));
    EXPECT_EQ(world.trace, "1");
    world.event.notify();
    world.executor.run_ready();
    EXPECT_EQ(world.trace, "12.");
}

Task<void> count_slices(World& world, char name) {
    for (int i = 0; i < 3; ++i) {
        world.trace += name;
        co_await Yield();
    }
}

TEST(Yield, LetsOtherReadyTasksRun) {
    World world;
    world.executor.spawn(count_slices(world, 'a'));
    world.executor.spawn(count_slices(world, 'b'));
    world.executor.run_ready();
    EXPECT_EQ(world.trace, "ababab");
}

TEST(Executor, OrderOfResumptionCanBeDrawnFromASeed) {
    const auto trace_of = [](std::uint64_t seed) {
        World world;
        Rng order(seed);
        world.executor.set_order(&order);
        for (char name = 'a'; name < 'i'; ++name) world.executor.spawn(count_slices(world, name));
        world.executor.run_ready();
        return world.trace;
    };
    EXPECT_EQ(trace_of(1), trace_of(1));
    EXPECT_NE(trace_of(1), trace_of(2));
}

}  // namespace
}  // namespace uc::async
