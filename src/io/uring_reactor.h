// The real world: one io_uring that completes block I/O, socket I/O, polls and timers, and resumes the
// tasks of one executor. One thread.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "async/executor.h"
#include "async/task.h"
#include "base/result.h"
#include "io/clock.h"

struct io_uring;
struct io_uring_sqe;

namespace uc::io {

// One operation in flight; lives in the waiter's frame or in a device's own request object.
struct UringOp {
    virtual void complete(int result) = 0;  // >= 0, or -errno

protected:
    ~UringOp() = default;
};

class UringReactor final : public Clock {
public:
    // Aborts with a clear message through Result if io_uring is not available.
    static Result<std::unique_ptr<UringReactor>> create(async::Executor& executor,
                                                        unsigned queue_depth = 1024);
    ~UringReactor() override;

    // Runs until stop() is called: resumes ready tasks, submits what they queued in one batch, waits
    // for completions, and so on.
    void run();
    void stop() { stopping_ = true; }
    // One turn: for benchmarks and tests. Waits for a completion only if `wait`.
    void turn(bool wait);

    // A submission entry to fill in (already linked to `op`). Never null: submits a full queue first.
    io_uring_sqe* prepare(UringOp* op);

    // Clock.
    Instant now() const override;
    std::uint32_t wall_seconds() const override;
    void arm(Timer* timer) override;
    void cancel(Timer* timer) override;

    // Awaitable socket and file operations; each co_await gives Result<std::size_t> (for accept: the new
    // descriptor; for poll: the events). Not cancellable: shut the socket down instead.
    class OpAwaiter;
    OpAwaiter recv(int fd, std::span<std::byte> out);
    OpAwaiter send(int fd, std::span<const std::byte> in);
    OpAwaiter accept(int fd);
    OpAwaiter poll(int fd, unsigned events);
    // Waits for one of these signals (blocked by the caller in every thread beforehand); via signalfd.
    // ... use poll() on a signalfd.

private:
    explicit UringReactor(async::Executor& executor);
    struct State;
    std::unique_ptr<State> state_;
    bool stopping_ = false;
};

}  // namespace uc::io
