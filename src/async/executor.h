// The one place that resumes coroutines. A set and all that serves it share one executor, which
// runs on one thread; so the engine has no locks and no atomics.
//
// Nothing resumes a task inline: who completes something posts the waiting task here. Stacks stay
// flat, and the order of resumption is a policy: first come first served, or drawn from a seed.
#pragma once

#include <coroutine>
#include <cstddef>

#include "async/ready_queue.h"
#include "base/rng.h"

namespace uc::async {

class Executor;
template <class T>
class Task;
class TaskGroup;

// The part of a coroutine's promise that others need: enough to resume it once.
struct Waiter {
    std::coroutine_handle<> handle;
    Executor* executor = nullptr;

    // Queue for resumption. The caller must not touch the waiter afterwards.
    void wake();
};

class Executor {
public:
    Executor() = default;
    ~Executor();
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    // Draw the order of resumption from `order` (simulator). It must outlive the executor.
    void set_order(Rng* order) { order_ = order; }

    void post(Waiter* waiter);
    // Resume one ready task; false if none is ready.
    bool run_one();
    // Resume until none is ready.
    void run_ready();
    bool idle() const { return ready_.empty(); }

    // Start a task that nobody awaits. It is queued, not run inline. Prefer TaskGroup::spawn.
    void spawn(Task<void> task, TaskGroup* group = nullptr);

    // A crash: forget what is ready and destroy every task that spawn() started, with all tasks
    // they wait for. Devices and timers must have dropped their pending requests before.
    void drop_all();

private:
    friend struct PromiseBase;
    struct RootList;
    void unlink_root(struct PromiseBase* root);

    ReadyQueue ready_;
    Rng* order_ = nullptr;
    struct PromiseBase* roots_ = nullptr;
    bool dropping_ = false;
};

}  // namespace uc::async
