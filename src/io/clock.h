// Time as the engine sees it: monotonic, wall-clock seconds for on-disk stamps, and timers. Real in
// the daemon, virtual in the simulator.
#pragma once

#include <coroutine>
#include <cstdint>

#include "async/sync.h"
#include "async/task.h"
#include "base/units.h"

namespace uc::io {

// A pending timer; lives in the sleeper's frame. The clock calls fire() once, unless cancelled.
struct Timer {
    Instant due{};
    std::uint64_t order = 0;  // for the clock: makes timers with equal due times distinct
    bool armed = false;
    virtual void fire() = 0;

protected:
    ~Timer() = default;
};

class Clock {
public:
    virtual ~Clock() = default;
    virtual Instant now() const = 0;
    virtual std::uint32_t wall_seconds() const = 0;  // since 1970
    // Arms `timer` for timer->due.
    virtual void arm(Timer* timer) = 0;
    // Disarms; does nothing if it is not armed.
    virtual void cancel(Timer* timer) = 0;

    class Sleep final : public Timer {
    public:
        Sleep(Clock& clock, Instant until) : clock_(clock) { due = until; }
        Sleep(const Sleep&) = delete;
        Sleep& operator=(const Sleep&) = delete;
        ~Sleep() { clock_.cancel(this); }
        void fire() override { waiter_->wake(); }
        bool await_ready() { return false; }
        template <class P>
        void await_suspend(std::coroutine_handle<P> self) {
            waiter_ = &self.promise();
            clock_.arm(this);
        }
        void await_resume() {}

    private:
        Clock& clock_;
        async::Waiter* waiter_ = nullptr;
    };
    [[nodiscard]] Sleep sleep(Duration duration) { return Sleep(*this, now() + duration); }
    [[nodiscard]] Sleep sleep_until(Instant until) { return Sleep(*this, until); }
};

}  // namespace uc::io
