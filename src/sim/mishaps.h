// What goes wrong while a set is in service: errors, wrong bits, hangs, devices that go away and
// come back.
#pragma once

#include <memory>

#include "async/task.h"
#include "base/rng.h"
#include "sim/machine.h"

namespace uc::sim {

class Mishaps {
public:
    Mishaps(Machine& machine, Rng rng) : machine_(machine), rng_(rng) {}
    Mishaps(const Mishaps&) = delete;
    Mishaps& operator=(const Mishaps&) = delete;

    // Between these, requests may fail; afterwards a flush may tell of what is lost.
    void begin_faults();
    void end_faults();
    // Slow for a while, or silent and then back as if nothing had been.
    void storm();
    // One device goes away for a while, perhaps longer than requests wait for it.
    Task<void> cache_outage();
    Task<void> backing_outage(Target& target);
    // Until no device is missing any more; a failure if that takes ten minutes.
    Task<void> wait_for_service();

private:
    void add_fault();
    Task<void> offer_older_copy(std::shared_ptr<const SimDisk::Snapshot> older);
    Task<void> nudge();
    Task<void> sleep_up_to(Duration longest);
    SimDisk& any_disk();
    void begin_losses();
    void expect_losses();

    Machine& machine_;
    Rng rng_;
};

}  // namespace uc::sim
