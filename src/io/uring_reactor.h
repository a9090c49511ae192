// The real world: one io_uring that completes block I/O, socket I/O, polls and timers, and resumes
// the tasks of one executor. One thread: the kernel binds the ring to the thread that calls
// create(), and only that thread may use the reactor afterwards.
//
// Lifetimes: an operation in flight is written to by the kernel, so the frame or object that holds
// it (and the memory it names) must live until complete(). Therefore destroy in this order:
// devices, reactor, executor. The reactor's destructor cancels and awaits what is in flight; the
// waiters are posted to the executor, which drops them.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "async/executor.h"
#include "async/task.h"
#include "base/result.h"
#include "io/clock.h"

struct io_uring_sqe;

namespace uc::io {

// One operation in flight; lives in the waiter's frame or in a device's own request object.
struct UringOp {
    // The kernel is done with it: `result` >= 0, or -errno. May prepare() the next operation, must
    // not resume a task (wake the waiter instead).
    virtual void complete(int result) = 0;

protected:
    ~UringOp() = default;
};

class UringReactor final : public Clock {
public:
    // Errc::unsupported if io_uring is not available (old kernel, or forbidden: see `sys`).
    static Result<std::unique_ptr<UringReactor>> create(async::Executor& executor,
                                                        unsigned queue_depth = 1024);
    ~UringReactor() override;

    // Runs until stop() is called by a task: resumes ready tasks, submits what they queued in one
    // batch, waits for completions, and so on. For signals poll() a signalfd.
    void run();
    void stop() { stopping_ = true; }
    // One turn of run(); it returns after the tasks that became ready were resumed. Waits for a
    // completion or timer only if `wait` and no task was ready before.
    void turn(bool wait);
    // Completes what is in flight without resuming a task, until `device_in_flight` is 0. For the
    // destructors of devices.
    void settle(const std::size_t& device_in_flight);

    // A submission entry to fill in at once (already linked to `op`). Never null: submits a full
    // queue first.
    io_uring_sqe* prepare(UringOp* op);
    // The same for an operation that may be left unfinished: the reactor does not await it when it
    // ends. What it points to must be kept (keep()), for the kernel may write to it until then.
    io_uring_sqe* prepare_lasting(UringOp* op);
    void keep(std::shared_ptr<const void> memory);
    // Operations prepared and not completed, without the lasting ones.
    std::size_t in_flight() const { return in_flight_; }

    // Slot for IOSQE_FIXED_FILE, which saves the descriptor look-up; -1 if there is none left.
    int register_file(int fd);
    void unregister_file(int slot);

    // Clock.
    Instant now() const override;
    std::uint32_t wall_seconds() const override;
    void arm(Timer* timer) override;
    void cancel(Timer* timer) override;

    // Awaitable socket and file operations; each co_await gives Result<std::size_t> (for accept:
    // the new descriptor; for poll: the events). Transfers may be short, as the system calls are.
    // The descriptors must be blocking ones. Not cancellable: shut the socket down instead.
    class OpAwaiter;
    OpAwaiter recv(int fd, std::span<std::byte> out);
    OpAwaiter send(int fd, std::span<const std::byte> in);
    OpAwaiter accept(int fd);
    OpAwaiter poll(int fd, unsigned events);

private:
    struct State;
    UringReactor(async::Executor& executor, std::unique_ptr<State> state);
    void resume_ready();
    void submit_and_wait();
    void reap();
    void make_room();
    io_uring_sqe* next_entry();
    void dispatch(std::uint64_t user_data, int result);
    void fire_timers();
    void cancel_all();

    async::Executor& executor_;
    std::unique_ptr<State> state_;
    std::size_t in_flight_ = 0;
    std::size_t lasting_ = 0;
    std::uint64_t timer_order_ = 0;
    bool stopping_ = false;
    bool closing_ = false;  // interrupted operations are not started again
};

class UringReactor::OpAwaiter final : public UringOp {
public:
    enum class Kind : std::uint8_t { recv, send, accept, poll };
    OpAwaiter(UringReactor& reactor, Kind kind, int fd, std::byte* data, std::size_t bytes,
              unsigned events)
        : reactor_(reactor), data_(data), bytes_(bytes), fd_(fd), events_(events), kind_(kind) {}
    OpAwaiter(const OpAwaiter&) = delete;
    OpAwaiter& operator=(const OpAwaiter&) = delete;

    bool await_ready() { return false; }
    template <class P>
    void await_suspend(std::coroutine_handle<P> self) {
        waiter_ = &self.promise();
        start();
    }
    Result<std::size_t> await_resume() const;
    void complete(int result) override;

private:
    void start();

    UringReactor& reactor_;
    async::Waiter* waiter_ = nullptr;
    std::byte* data_;
    std::size_t bytes_;
    int fd_;
    unsigned events_;
    int result_ = 0;
    int interruptions_ = 0;
    Kind kind_;
};

}  // namespace uc::io
