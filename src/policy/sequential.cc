// A stream is recognised by a request that starts where an earlier one ended. So the table is keyed
// by the end of each run: a chain per hash of the end finds the run, a list by last use finds the
// run to replace when none fits. Both are links between the 128 fixed slots.
//
// The kernel also lets a request of a task that has been streaming count as part of a stream, by an
// average over the task's runs. Front ends do not know tasks, and one average over everybody would
// make a backup bypass the random requests of all others. So only the run itself counts here.
#include "policy/sequential.h"

namespace uc::policy {

SequentialRuns::SequentialRuns() {
    chains_.fill(kNone);
    for (unsigned i = 0; i < kRuns; ++i) {
        runs_[i].older = i == 0 ? kNone : static_cast<Slot>(i - 1);
        runs_[i].newer = i + 1 == kRuns ? kNone : static_cast<Slot>(i + 1);
    }
}

unsigned SequentialRuns::chain_of(std::uint64_t end) {
    return static_cast<unsigned>((end * 0x9e3779b97f4a7c15) >> 56);
}

SequentialRuns::Slot SequentialRuns::find(std::uint64_t start, Instant now) const {
    for (Slot slot = chains_[chain_of(start)]; slot != kNone; slot = runs_[slot].next) {
        if (runs_[slot].end == start && now < runs_[slot].expires) return slot;
    }
    return kNone;
}

void SequentialRuns::add_to_chain(Slot slot) {
    Slot& head = chains_[chain_of(runs_[slot].end)];
    runs_[slot].next = head;
    runs_[slot].listed = true;
    head = slot;
}

void SequentialRuns::remove_from_chain(Slot slot) {
    if (!runs_[slot].listed) return;
    Slot* link = &chains_[chain_of(runs_[slot].end)];
    while (*link != slot) link = &runs_[*link].next;
    *link = runs_[slot].next;
    runs_[slot].listed = false;
}

void SequentialRuns::make_newest(Slot slot) {
    if (slot == newest_) return;
    Run& run = runs_[slot];
    if (run.older == kNone) {
        oldest_ = run.newer;
    } else {
        runs_[run.older].newer = run.newer;
    }
    runs_[run.newer].older = run.older;  // not the newest, so there is a newer one
    run.older = newest_;
    run.newer = kNone;
    runs_[newest_].newer = slot;
    newest_ = slot;
}

std::uint64_t SequentialRuns::observe(std::uint64_t start, std::uint64_t sectors, Instant now) {
    Slot slot = find(start, now);
    if (slot == kNone) {
        slot = oldest_;
        runs_[slot].sectors = 0;
    }
    remove_from_chain(slot);
    Run& run = runs_[slot];
    run.sectors += sectors;
    run.end = start + sectors;
    run.expires = now + kExpiry;
    add_to_chain(slot);
    make_newest(slot);
    return run.sectors;
}

}  // namespace uc::policy
