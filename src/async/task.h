// Task<T>: a lazily started coroutine that is awaited exactly once.
//
// A child starts at once, inside the parent's co_await. If it ends without waiting, the parent goes
// on at once. If it had to wait, its end posts the parent to the executor. A child learns its
// executor from its parent, so there is no global.
//
// g++ 12 miscompiles some forms: see docs/decisions/0002-coroutine-forms.md and tools/lint.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include "async/executor.h"
#include "async/frame_pool.h"
#include "base/check.h"

namespace uc::async {

class TaskGroup;

struct PromiseBase : Waiter {
    Waiter* parent = nullptr;
    // Links of a root task in its executor's list.
    PromiseBase* root_prev = nullptr;
    PromiseBase* root_next = nullptr;
    TaskGroup* group = nullptr;
    bool is_root = false;

    static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
    static void operator delete(void* frame, std::size_t bytes) { free_frame(frame, bytes); }

    std::suspend_always initial_suspend() noexcept { return {}; }
    void unhandled_exception() noexcept {
        check_failed("no exceptions in tasks", __FILE__, __LINE__);
    }

    struct Final {
        bool await_ready() noexcept { return false; }
        template <class P>
        void await_suspend(std::coroutine_handle<P> self) noexcept {
            finish(self.promise(), self);
        }
        void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }

private:
    static void finish(PromiseBase& promise, std::coroutine_handle<> self) noexcept;
};

template <class T>
struct Promise : PromiseBase {
    std::optional<T> value;
    Task<T> get_return_object();
    template <class U>
    void return_value(U&& result) {
        value.emplace(std::forward<U>(result));
    }
    T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
    Task<void> get_return_object();
    void return_void() {}
    void take() {}
};

template <class T = void>
class [[nodiscard]] Task {
public:
    using promise_type = Promise<T>;

    Task() = default;
    explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
    Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
    Task& operator=(Task&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Task() {
        if (handle_) handle_.destroy();
    }

    bool await_ready() { return false; }
    // Runs the child up to its first wait. False: it ended already, the parent just goes on.
    template <class P>
    bool await_suspend(std::coroutine_handle<P> parent) {
        promise_type& child = handle_.promise();
        child.handle = handle_;
        child.executor = parent.promise().executor;
        handle_.resume();
        if (handle_.done()) return false;
        child.parent = &parent.promise();
        return true;
    }
    T await_resume() { return handle_.promise().take(); }

    // For Executor::spawn only.
    std::coroutine_handle<promise_type> release() { return std::exchange(handle_, {}); }

private:
    std::coroutine_handle<promise_type> handle_;
};

template <class T>
Task<T> Promise<T>::get_return_object() {
    return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
    return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

}  // namespace uc::async

namespace uc {
using async::Task;
}
