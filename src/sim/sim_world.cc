// The loop: resume every ready task (in an order drawn from the seed), then let the next timer
// fire; completions of disks are timers too. A planned crash is noticed at the request that
// triggers it: from there on no request reaches a disk, and the loop stops after the task that was
// running.

#include "sim/sim_world.h"

#include <utility>

#include "ondisk/magic.h"
#include "ondisk/superblock.h"

namespace uc::sim {

SimWorld::SimWorld(std::uint64_t seed) : rng_(seed), order_(rng_.fork()) {
    executor_.set_order(&order_);
}

SimWorld::~SimWorld() {
    executor_.drop_all();
}

SimDisk& SimWorld::add_disk(SimDiskOptions options) {
    DiskObserver* const observer = this;
    disks_.push_back(std::make_unique<SimDisk>(std::move(options), clock_, rng_.fork(), observer));
    return *disks_.back();
}

bool SimWorld::step(Instant deadline) {
    if (executor_.run_one()) return true;
    if (!clock_.has_timer()) return false;
    const Instant due = clock_.next_due();
    if (planned_ && plan_.at == CrashPlan::At::time && due >= plan_.time) {
        dead_ = true;
        return true;
    }
    if (due > deadline) return false;
    clock_.fire_next();
    return true;
}

void SimWorld::plan_crash(const CrashPlan& plan) {
    plan_ = plan;
    planned_ = true;
}

void SimWorld::crash(CrashKind kind) {
    dead_ = true;  // nothing that is destroyed now may reach a disk
    planned_ = false;
    for (const auto& disk : disks_) disk->crash(kind);
    executor_.drop_all();
    dead_ = false;
}

void SimWorld::note(std::uint64_t event) {
    hash_ = (hash_ ^ event) * 0x100000001b3;
    hash_ ^= hash_ >> 29;
}

void SimWorld::note_request(unsigned what, const SimDisk& disk, const io::IoRequest& request) {
    ++events_;
    std::uint64_t index = 0;
    while (index < disks_.size() && disks_[index].get() != &disk) ++index;
    note(what | index << 8 | static_cast<std::uint64_t>(request.kind) << 16 |
         std::uint64_t{request.fua} << 24 | std::uint64_t{request.ok} << 25);
    note(request.sector);
    note(request.sectors);
    note(static_cast<std::uint64_t>(clock_.now().since_start.count()));
}

bool SimWorld::is_near(const io::IoRequest& request) const {
    if (plan_.near == CrashPlan::Near::anything) return true;
    if (request.kind != io::IoKind::write) return false;
    switch (plan_.near) {
        case CrashPlan::Near::superblock:
            return request.sector == ondisk::kSuperblockSector;
        case CrashPlan::Near::journal:
            return magic_of({request.data, kSectorBytes}, set_magic_) == ondisk::kJsetMagic;
        case CrashPlan::Near::node:
            return magic_of({request.data, kSectorBytes}, set_magic_) == ondisk::kBsetMagic;
        case CrashPlan::Near::priorities:
            return magic_of({request.data, kSectorBytes}, set_magic_) == ondisk::kPrioMagic;
        case CrashPlan::Near::anything:
            break;
    }
    return true;
}

void SimWorld::count_down(CrashPlan::At at, const io::IoRequest& request) {
    if (!planned_ || plan_.at != at || request.kind == io::IoKind::read) return;
    if (!is_near(request)) return;
    if (plan_.count > 0) --plan_.count;
    if (plan_.count != 0) return;
    plan_.near = CrashPlan::Near::anything;
    plan_.count = std::exchange(plan_.then, 0);
    dead_ = plan_.count == 0;
}

bool SimWorld::submitted(const SimDisk& disk, const io::IoRequest& request) {
    if (dead_) return false;
    note_request(1, disk, request);
    if (watcher_) watcher_(disk, request);
    count_down(CrashPlan::At::submission, request);
    return true;
}

void SimWorld::completed(const SimDisk& disk, const io::IoRequest& request) {
    note_request(2, disk, request);
    count_down(CrashPlan::At::completion, request);
}

}  // namespace uc::sim
