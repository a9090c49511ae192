// A canary for each form of co_await that the rules allow (docs/decisions/0002-coroutine-forms.md).
// g++ 12 miscompiles the forms beside them: objects destroyed twice or never, frames resumed with
// the wrong values, functions that never finish. If a compiler breaks one that we use, it shows
// here, in every build type and under the sanitizers.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "async/sync.h"
#include "async/task.h"
#include "base/result.h"

namespace uc::async {
namespace {

// Counts its lives: constructions of every kind minus destructions.
struct Counted {
    explicit Counted(int& alive, int number = 0) : alive_(&alive), value(number) { ++alive; }
    Counted(const Counted& other) : alive_(other.alive_), value(other.value) { ++*alive_; }
    Counted(Counted&& other) noexcept : alive_(other.alive_), value(other.value) {
        ++*alive_;
        other.value = -1;
    }
    Counted& operator=(const Counted&) = default;
    ~Counted() { --*alive_; }

private:
    int* alive_;

public:
    int value;
};

struct World {
    ~World() { executor.drop_all(); }

    Executor executor;
    Event event;
    int alive = 0;
    std::vector<std::string> trace;

    void run(Task<void> task) {
        executor.spawn(std::move(task));
        executor.run_ready();
    }
    // Lets waiting tasks go on, several times.
    void finish() {
        for (int i = 0; i < 20; ++i) {
            event.notify();
            executor.run_ready();
        }
    }
};

Task<Result<Counted>> make_counted(World& world, int value, bool wait) {
    Counted made(world.alive, value);
    if (wait) {
        co_await world.event.wait();
    }
    if (value < 0) co_return fail(Errc::invalid, "negative");
    co_return made;
}

Task<Result<void>> check_positive(World& world, int value, bool wait) {
    if (wait) {
        co_await world.event.wait();
    }
    if (value < 0) co_return fail(Errc::invalid, "negative");
    co_return Result<void>{};
}

// Whether children wait or end at once are two paths through Task.
class Canary : public testing::TestWithParam<bool> {
protected:
    bool waits() const { return GetParam(); }
    World world;
};

Task<void> plain_statement(World& world, bool wait) {
    co_await check_positive(world, 1, wait);
    world.trace.emplace_back("after");
}

TEST_P(Canary, PlainStatementGoesOn) {
    world.run(plain_statement(world, waits()));
    world.finish();
    EXPECT_EQ(world.trace, std::vector<std::string>{"after"});
}

Task<void> named_value(World& world, bool wait, int& out) {
    const Result<Counted> made = co_await make_counted(world, 7, wait);
    out = made->value;
}

TEST_P(Canary, NamedValueIsDestroyedOnce) {
    int out = 0;
    world.run(named_value(world, waits(), out));
    world.finish();
    EXPECT_EQ(out, 7);
    EXPECT_EQ(world.alive, 0);
}

Task<Result<Counted>> pass_on(World& world, int value, bool wait) {
    co_return co_await make_counted(world, value, wait);
}

Task<void> receive(World& world, bool wait, int& out) {
    const Result<Counted> made = co_await pass_on(world, 9, wait);
    out = made->value;
}

TEST_P(Canary, ReturnedAwaitIsDestroyedOnce) {
    int out = 0;
    world.run(receive(world, waits(), out));
    world.finish();
    EXPECT_EQ(out, 9);
    EXPECT_EQ(world.alive, 0);
}

Task<Result<int>> unwrap(World& world, int first, int second, bool wait) {
    CO_TRY(const Counted a, co_await make_counted(world, first, wait));
    world.trace.emplace_back("first");
    CO_TRY(const Counted b, co_await make_counted(world, second, wait));
    world.trace.emplace_back("second");
    co_return a.value * 10 + b.value;
}

Task<void> unwrap_into(World& world, int first, int second, bool wait, Result<int>& out) {
    const Result<int> got = co_await unwrap(world, first, second, wait);
    out = got;
}

TEST_P(Canary, TryUnwrapsValues) {
    Result<int> out = 0;
    world.run(unwrap_into(world, 3, 4, waits(), out));
    world.finish();
    ASSERT_TRUE(out);
    EXPECT_EQ(*out, 34);
    EXPECT_EQ(world.alive, 0);
}

TEST_P(Canary, TryLeavesAtTheFirstErrorAndDestroysWhatWasMade) {
    Result<int> out = 0;
    world.run(unwrap_into(world, 3, -1, waits(), out));
    world.finish();
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code, Errc::invalid);
    EXPECT_EQ(world.trace, std::vector<std::string>{"first"});
    EXPECT_EQ(world.alive, 0);
}

Task<Result<void>> check_two(World& world, int first, int second, bool wait) {
    const Counted local(world.alive);
    CO_OK(co_await check_positive(world, first, wait));
    world.trace.emplace_back("first");
    CO_OK(co_await check_positive(world, second, wait));
    world.trace.emplace_back("second");
    co_return Result<void>{};
}

Task<void> check_into(World& world, int first, int second, bool wait, Result<void>& out) {
    const Result<void> got = co_await check_two(world, first, second, wait);
    out = got;
}

TEST_P(Canary, OkLeavesAtTheFirstErrorAndDestroysLocals) {
    Result<void> out;
    world.run(check_into(world, -1, 1, waits(), out));
    world.finish();
    EXPECT_FALSE(out);
    EXPECT_TRUE(world.trace.empty());
    EXPECT_EQ(world.alive, 0);
}

TEST_P(Canary, OkGoesOnWithoutAnError) {
    Result<void> out = fail(Errc::io, "not run");
    world.run(check_into(world, 1, 1, waits(), out));
    world.finish();
    EXPECT_TRUE(out);
    EXPECT_EQ(world.trace, (std::vector<std::string>{"first", "second"}));
    EXPECT_EQ(world.alive, 0);
}

// A parameter by value lives in the callee's frame; the argument is moved from a named object.
Task<int> consume(World& world, Counted value, bool wait) {
    if (wait) {
        co_await world.event.wait();
    }
    co_return value.value;
}

Task<void> pass_by_value(World& world, bool wait, int& out) {
    Counted named(world.alive, 5);
    const int got = co_await consume(world, std::move(named), wait);
    out = got;
}

TEST_P(Canary, ParameterByValueIsDestroyedOnce) {
    int out = 0;
    world.run(pass_by_value(world, waits(), out));
    world.finish();
    EXPECT_EQ(out, 5);
    EXPECT_EQ(world.alive, 0);
}

// A temporary with a constructor (no aggregate) in the awaiting statement.
Task<void> pass_temporary(World& world, bool wait, int& out) {
    const int got = co_await consume(world, Counted(world.alive, 6), wait);
    out = got;
}

TEST_P(Canary, TemporaryArgumentIsDestroyedOnce) {
    int out = 0;
    world.run(pass_temporary(world, waits(), out));
    world.finish();
    EXPECT_EQ(out, 6);
    EXPECT_EQ(world.alive, 0);
}

Task<void> pass_unique(World& world, std::unique_ptr<Counted> value, bool wait, int& out) {
    if (wait) {
        co_await world.event.wait();
    }
    out = value->value;
}

TEST_P(Canary, MoveOnlyParameterSurvivesTheWait) {
    int out = 0;
    auto value = std::make_unique<Counted>(world.alive, 8);
    world.run(pass_unique(world, std::move(value), waits(), out));
    world.finish();
    EXPECT_EQ(out, 8);
    EXPECT_EQ(world.alive, 0);
}

// An awaiter that must stay where it is: what it registered is its own address.
class Pinned {
public:
    Pinned(World& world, bool wait) : world_(world), wait_(wait), self_(this) {}
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    ~Pinned() { world_.trace.emplace_back(self_ == this ? "stayed" : "moved"); }
    bool await_ready() { return !wait_; }
    template <class P>
    void await_suspend(std::coroutine_handle<P> self) {
        self.promise().wake();
    }
    int await_resume() { return self_ == this ? 1 : 0; }

private:
    World& world_;
    bool wait_;
    Pinned* self_;
};

Pinned make_pinned(World& world, bool wait) {
    return Pinned(world, wait);
}

Task<void> await_pinned(World& world, bool wait, int& out) {
    const int got = co_await make_pinned(world, wait);
    out = got;
}

TEST_P(Canary, AwaiterThatCannotMoveStaysInTheFrameAndIsDestroyedOnce) {
    int out = 0;
    world.run(await_pinned(world, waits(), out));
    world.finish();
    EXPECT_EQ(out, 1);
    EXPECT_EQ(world.trace, std::vector<std::string>{"stayed"});
}

Task<int> leave_early(World& world, int depth, bool wait) {
    const Counted outer(world.alive);
    for (int i = 0; i < 4; ++i) {
        const Counted inner(world.alive, i);
        if (wait) {
            co_await world.event.wait();
        }
        if (i == depth) co_return i;
    }
    co_return -1;
}

Task<void> leave_into(World& world, int depth, bool wait, int& out) {
    const int got = co_await leave_early(world, depth, wait);
    out = got;
}

TEST_P(Canary, EarlyReturnFromALoopDestroysEveryScope) {
    int out = 0;
    world.run(leave_into(world, 2, waits(), out));
    world.finish();
    EXPECT_EQ(out, 2);
    EXPECT_EQ(world.alive, 0);
}

// The value is named, then judged: the form that replaces `if (co_await f())`.
Task<void> named_condition(World& world, bool wait, int& rounds) {
    while (true) {
        const Result<void> checked = co_await check_positive(world, 2 - rounds, wait);
        if (!checked) break;
        ++rounds;
    }
    world.trace.emplace_back("end");
}

TEST_P(Canary, NamedConditionEndsTheLoop) {
    int rounds = 0;
    world.run(named_condition(world, waits(), rounds));
    world.finish();
    EXPECT_EQ(rounds, 3);
    EXPECT_EQ(world.trace, std::vector<std::string>{"end"});
}

// A stored task, awaited later.
Task<void> store_then_await(World& world, bool wait, int& out) {
    Task<Result<Counted>> stored = make_counted(world, 4, wait);
    world.trace.emplace_back("stored");
    const Result<Counted> got = co_await std::move(stored);
    out = got->value;
}

TEST_P(Canary, StoredTaskStartsWhenAwaited) {
    int out = 0;
    world.run(store_then_await(world, waits(), out));
    world.finish();
    EXPECT_EQ(out, 4);
    EXPECT_EQ(world.alive, 0);
}

TEST(CanaryUnstarted, TaskThatIsNeverAwaitedDestroysItsParameters) {
    World world;
    {
        Counted value(world.alive, 1);
        const Task<int> never = consume(world, std::move(value), false);
    }
    EXPECT_EQ(world.alive, 0);
}

TEST(CanaryDropped, SuspendedFramesDestroyTheirLocalsOnce) {
    World world;
    Result<int> out = 0;
    world.run(unwrap_into(world, 3, 4, true, out));
    world.event.notify();
    world.executor.run_ready();
    EXPECT_GT(world.alive, 0);
    world.executor.drop_all();
    EXPECT_EQ(world.alive, 0);
}

// 10'000 children that end at once, one after the other, and 1'000 that wait: stacks stay flat.
Task<void> many_children(World& world, int count, bool wait, int& out) {
    for (int i = 0; i < count; ++i) {
        const Result<void> checked = co_await check_positive(world, i, wait);
        out += checked.has_value();
    }
}

TEST_P(Canary, ManyChildrenInALoopKeepTheStackFlat) {
    int out = 0;
    const int count = waits() ? 1000 : 10000;
    world.run(many_children(world, count, waits(), out));
    while (world.event.has_waiters()) {
        world.event.notify();
        world.executor.run_ready();
    }
    EXPECT_EQ(out, count);
}

std::string child_name(const testing::TestParamInfo<bool>& child) {
    return child.param ? "ThatWait" : "ThatEndAtOnce";
}

INSTANTIATE_TEST_SUITE_P(Children, Canary, testing::Bool(), child_name);

}  // namespace
}  // namespace uc::async
