// Wait for an event or a timeout, whichever comes first: `co_await TimedWait(clock, event, 5s);`
#pragma once

#include <coroutine>

#include "async/sync.h"
#include "io/clock.h"

namespace uc::io {

class TimedWait final : public Timer {
public:
    TimedWait(Clock& clock, async::Event& event, Duration timeout) : clock_(clock), event_(event) {
        due = clock.now() + timeout;
    }
    TimedWait(const TimedWait&) = delete;
    TimedWait& operator=(const TimedWait&) = delete;
    ~TimedWait() { clock_.cancel(this); }

    void fire() override {
        if (!node_.linked()) return;  // the event was first
        node_.unlink();
        node_.waiter->wake();
    }
    bool await_ready() { return false; }
    template <class P>
    void await_suspend(std::coroutine_handle<P> self) {
        node_.waiter = &self.promise();
        event_.queue().push(node_);
        clock_.arm(this);
    }
    void await_resume() { clock_.cancel(this); }

private:
    Clock& clock_;
    async::Event& event_;
    async::WaitNode node_;
};

}  // namespace uc::io
