// Waiting for each other inside one executor: Event, Mutex, Semaphore, TaskGroup. Each queue is a
// list of nodes that live in the waiters' frames and leave the list when the frame is destroyed, so
// a simulated crash may destroy frames in any order.
#pragma once

#include <coroutine>
#include <cstdint>

#include "async/task.h"
#include "base/check.h"

namespace uc::async {

// A link in a circular list; removes itself when destroyed.
struct WaitLink {
    WaitLink* prev = this;
    WaitLink* next = this;
    WaitLink() = default;
    WaitLink(const WaitLink&) = delete;
    WaitLink& operator=(const WaitLink&) = delete;
    ~WaitLink() { unlink(); }

    bool linked() const { return next != this; }
    void unlink() {
        prev->next = next;
        next->prev = prev;
        prev = next = this;
    }
    void insert_before(WaitLink& at) {
        prev = at.prev;
        next = &at;
        prev->next = this;
        at.prev = this;
    }
};

struct WaitNode : WaitLink {
    Waiter* waiter = nullptr;
};

class WaitQueue {
public:
    bool empty() const { return !head_.linked(); }
    void push(WaitNode& node) { node.insert_before(head_); }
    // Wakes the longest waiting task; false if there is none.
    bool wake_one() {
        if (empty()) return false;
        WaitNode& node = static_cast<WaitNode&>(*head_.next);
        node.unlink();
        node.waiter->wake();
        return true;
    }
    void wake_all() {
        while (wake_one()) {
        }
    }

private:
    WaitLink head_;
};

// A condition that tasks wait for in a loop: `while (!ready) co_await changed.wait();`
class Event {
public:
    // Everybody who waits now is resumed later; a later wait() waits for the next notify.
    void notify() { queue_.wake_all(); }
    bool has_waiters() const { return !queue_.empty(); }

    struct Wait : WaitNode {
        explicit Wait(Event& event) : event_(event) {}
        bool await_ready() { return false; }
        template <class P>
        void await_suspend(std::coroutine_handle<P> self) {
            waiter = &self.promise();
            event_.queue_.push(*this);
        }
        void await_resume() {}

    private:
        Event& event_;
    };
    [[nodiscard]] Wait wait() { return Wait(*this); }

    // For waits that can also end otherwise (io/timed_wait.h).
    WaitQueue& queue() { return queue_; }

private:
    WaitQueue queue_;
};

// Counts permits; acquire() is first come first served.
class Semaphore {
public:
    explicit Semaphore(std::uint64_t permits) : permits_(permits) {}

    struct Acquire : WaitNode {
        explicit Acquire(Semaphore& semaphore) : semaphore_(semaphore) {}
        bool await_ready() {
            if (semaphore_.permits_ == 0 || !semaphore_.queue_.empty()) return false;
            --semaphore_.permits_;
            return true;
        }
        template <class P>
        void await_suspend(std::coroutine_handle<P> self) {
            waiter = &self.promise();
            semaphore_.queue_.push(*this);
        }
        void await_resume() {}

    private:
        Semaphore& semaphore_;
    };
    [[nodiscard]] Acquire acquire() { return Acquire(*this); }
    bool try_acquire() {
        if (permits_ == 0 || !queue_.empty()) return false;
        --permits_;
        return true;
    }
    void release() {
        if (!queue_.wake_one()) ++permits_;  // the permit goes straight to the one woken
    }

private:
    friend struct Acquire;
    std::uint64_t permits_;
    WaitQueue queue_;
};

// `co_await mutex.lock(); const Mutex::Guard guard(mutex);`
class Mutex {
public:
    [[nodiscard]] Semaphore::Acquire lock() { return semaphore_.acquire(); }
    bool try_lock() { return semaphore_.try_acquire(); }
    void unlock() { semaphore_.release(); }

    // Adopts a mutex that the caller has locked.
    class Guard {
    public:
        explicit Guard(Mutex& mutex) : mutex_(mutex) {}
        ~Guard() { mutex_.unlock(); }
        Guard(const Guard&) = delete;
        Guard& operator=(const Guard&) = delete;

    private:
        Mutex& mutex_;
    };

private:
    Semaphore semaphore_{1};
};

// Lets every other ready task run first: `co_await Yield();` between slices of long work.
struct Yield {
    bool await_ready() { return false; }
    template <class P>
    void await_suspend(std::coroutine_handle<P> self) {
        self.promise().wake();
    }
    void await_resume() {}
};

// Tasks that run on their own and are awaited together. Must outlive them: await `drained()`.
class TaskGroup {
public:
    explicit TaskGroup(Executor& executor) : executor_(executor) {}
    TaskGroup(const TaskGroup&) = delete;
    TaskGroup& operator=(const TaskGroup&) = delete;

    void spawn(Task<void> task) {
        ++running_;
        executor_.spawn(std::move(task), this);
    }
    std::uint64_t running() const { return running_; }

    Task<void> drained() {
        while (running_ != 0) {
            co_await changed_.wait();
        }
    }

    // A task ended; called by the executor's promise.
    void ended() {
        CHECK(running_ > 0);
        --running_;
        changed_.notify();
    }

private:
    Executor& executor_;
    std::uint64_t running_ = 0;
    Event changed_;
};

}  // namespace uc::async
