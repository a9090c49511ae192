// Lets writes of whole sectors into a file run side by side, and one that has to read, change and
// write back a part of a sector run alone: else it could put back what another write just replaced.
#pragma once

#include "async/sync.h"
#include "async/task.h"
#include "base/check.h"

namespace uc::frontend {

class WriteGate {
public:
    // Whole sectors. Does not overtake a waiting enter_alone().
    Task<void> enter() {
        while (alone_ || waiting_alone_ > 0) {
            co_await changed_.wait();
        }
        ++inside_;
    }
    Task<void> enter_alone() {
        ++waiting_alone_;
        while (alone_ || inside_ > 0) {
            co_await changed_.wait();
        }
        --waiting_alone_;
        alone_ = true;
    }

    // Leaves when destroyed; for one who has entered in whichever way.
    class Guard {
    public:
        explicit Guard(WriteGate& gate) : gate_(gate) {}
        ~Guard() { gate_.leave(); }
        Guard(const Guard&) = delete;
        Guard& operator=(const Guard&) = delete;

    private:
        WriteGate& gate_;
    };

private:
    void leave() {
        if (alone_) {
            alone_ = false;
        } else {
            CHECK(inside_ > 0);
            --inside_;
        }
        if (!alone_ && inside_ == 0) changed_.notify();
    }

    unsigned inside_ = 0;
    unsigned waiting_alone_ = 0;
    bool alone_ = false;
    async::Event changed_;
};

}  // namespace uc::frontend
