// A stream is recognised by a request that starts where an earlier one ended. So the table is keyed
// by the end of each run: a chain per hash of the end finds the run, a list by last use finds the
// run to replace when none fits. Both are links between the 128 fixed slots.
//
// A task that has been streaming is expected to go on streaming at another place, so when a request
// starts a new run the length of the task's last run enters a decaying average (1/8 weight), and
// the average counts even for the first request of the new run. Tasks are remembered in a small
// direct-mapped table: a collision forgets an average, which costs a few requests that are cached
// although they belong to a stream.
#include "policy/sequential.h"

#include <algorithm>

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

SequentialRuns::Task& SequentialRuns::task_of(TaskId id) {
    Task& task = tasks_[(id * 0x9e3779b97f4a7c15) >> 58];
    if (task.id != id) task = Task{.id = id};
    return task;
}

std::uint64_t SequentialRuns::observe(std::uint64_t start, std::uint64_t sectors, Instant now,
                                      TaskId task_id) {
    Task& task = task_of(task_id);
    Slot slot = find(start, now);
    if (slot == kNone) {
        slot = oldest_;
        runs_[slot].bytes = 0;
        task.average_bytes = (task.average_bytes * 7 + task.run_bytes) / 8;
    }
    remove_from_chain(slot);
    Run& run = runs_[slot];
    run.bytes += sectors * kSectorBytes;
    run.end = start + sectors;
    run.expires = now + kExpiry;
    task.run_bytes = run.bytes;
    add_to_chain(slot);
    make_newest(slot);
    return std::max(task.run_bytes, task.average_bytes) / kSectorBytes;
}

}  // namespace uc::policy
