#include "async/task.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "async/sync.h"

namespace uc::async {
namespace {

Task<int> twice(int x) {
    co_return 2 * x;
}

Task<int> after(Event& event, int x) {
    co_await event.wait();
    co_return x;
}

Task<void> sum(Event& event, int& out) {
    const int a = co_await twice(3);
    const int b = co_await after(event, 10);
    const int c = co_await after(event, 100);
    out = a + b + c;
}

TEST(Task, ResumesParentAfterChildThatWaited) {
    Executor executor;
    Event event;
    int out = 0;
    executor.spawn(sum(event, out));
    executor.run_ready();
    EXPECT_EQ(out, 0);
    event.notify();
    executor.run_ready();
    event.notify();
    executor.run_ready();
    EXPECT_EQ(out, 116);
}

Task<void> locked(Mutex& mutex, Event& event, std::vector<int>& order, int id) {
    co_await mutex.lock();
    const Mutex::Guard guard(mutex);
    order.push_back(id);
    co_await event.wait();
}

TEST(Mutex, IsFirstComeFirstServed) {
    Executor executor;
    Mutex mutex;
    Event event;
    std::vector<int> order;
    TaskGroup group(executor);
    for (int id = 0; id < 3; ++id) group.spawn(locked(mutex, event, order, id));
    for (int round = 0; round < 3; ++round) {
        executor.run_ready();
        event.notify();
    }
    executor.run_ready();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(group.running(), 0u);
}

TEST(Executor, DropAllDestroysSuspendedTasksInAnyOrder) {
    Executor executor;
    Mutex mutex;
    Event event;
    std::vector<int> order;
    for (int id = 0; id < 5; ++id) executor.spawn(locked(mutex, event, order, id));
    executor.run_ready();
    executor.drop_all();
    EXPECT_TRUE(executor.idle());
    EXPECT_FALSE(event.has_waiters());
}

Task<int> deep(int n) {
    if (n == 0) co_return 0;
    const int below = co_await deep(n - 1);
    co_return below + 1;
}

Task<void> run_deep(int& out) {
    const int depth = co_await deep(1000);
    out = depth;
}

TEST(Task, NestsWithoutSuspension) {
    Executor executor;
    int out = 0;
    executor.spawn(run_deep(out));
    executor.run_ready();
    EXPECT_EQ(out, 1000);
}

}  // namespace
}  // namespace uc::async
