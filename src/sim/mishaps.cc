#include "sim/mishaps.h"

#include "sim/disk_bytes.h"
#include "sim/load.h"

namespace uc::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

SimDisk& Mishaps::any_disk() {
    const auto& disks = machine_.world().disks();
    return *disks[rng_.below(disks.size())];
}

void Mishaps::add_fault() {
    SimDisk& disk = any_disk();
    Fault fault;
    fault.sectors = 1 + rng_.below(disk.size_sectors() / 8);
    fault.sector = rng_.below(disk.size_sectors() - fault.sectors);
    fault.times = rng_.percent(80) ? 1 + static_cast<std::uint32_t>(rng_.below(5)) : 0;
    const std::uint64_t kind = rng_.below(100);
    if (kind < 20) {
        fault.flushes = true;
        fault.times = 1 + static_cast<std::uint32_t>(rng_.below(3));
    } else if (kind < 40) {
        fault.reads = fault.flip = true;
        fault.sector = 0;
        fault.sectors = machine_.cache().size_sectors();
        machine_.cache().add_fault(fault);
        return;
    } else {
        fault.reads = rng_.percent(60);
        fault.writes = !fault.reads || rng_.percent(30);
    }
    disk.add_fault(fault);
}

void Mishaps::begin_faults() {
    ++machine_.mishaps;
    begin_losses();
    for (std::uint64_t i = 1 + rng_.below(3); i > 0; --i) add_fault();
}

void Mishaps::end_faults() {
    for (const auto& disk : machine_.world().disks()) disk->clear_faults();
    expect_losses();
    --machine_.mishaps;
}

// A set that outlives its cache device may lose what was not flushed and go on.
void Mishaps::begin_losses() {
    if (machine_.steady() == nullptr) return;
    for (Target& target : machine_.targets()) target.model.begin_outage();
}

// The next flush of each volume may have to tell, and a second one of what the cache lost.
void Mishaps::expect_losses() {
    for (Target& target : machine_.targets()) target.untold = 2;
}

void Mishaps::storm() {
    const Instant now = machine_.world().clock().now();
    if (rng_.percent(30)) {
        machine_.seen.add(Seen::hangs);
        any_disk().hang(now + milliseconds(rng_.below(60'000)));
        return;
    }
    machine_.seen.add(Seen::storms);
    any_disk().storm(now + seconds(1), 50);
}

Task<void> Mishaps::sleep_up_to(Duration longest) {
    const auto most = static_cast<std::uint64_t>(longest.count());
    co_await machine_.world().clock().sleep(Duration(rng_.below(most)));
}

// A set that nobody uses does not notice that a device is gone.
Task<void> Mishaps::nudge() {
    Phase phase;
    phase.ops = 5;
    phase.max_sectors = 8;
    phase.fua_percent = 100;
    phase.flushes = 20;
    ++machine_.mishaps;
    Load load(machine_, phase);
    co_await load.client();
    --machine_.mishaps;
}

Task<void> Mishaps::wait_for_service() {
    int nudges = 0;
    for (int i = 0; i < 600; ++i) {
        const bool whole = machine_.set()->failure().empty();
        // Where no volume uses the cache, nobody notices.
        if (whole && machine_.holds_dead_handle() && nudges++ < 30) {
            co_await nudge();
        } else if (whole) {
            for (Target& target : machine_.targets()) target.model.end_outage();
            co_return;
        }
        co_await machine_.world().clock().sleep(seconds(1));
    }
    machine_.fail("service does not resume: " + machine_.set()->failure());
}

Task<void> Mishaps::cache_outage() {
    SimDisk& disk = machine_.cache();
    const auto older = disk.snapshot();
    const Duration until = seconds(rng_.percent(50) ? 1 : 20);
    co_await sleep_up_to(until);
    machine_.log("  the cache device is away");
    machine_.seen.add(Seen::cache_outages);
    ++machine_.mishaps;
    const bool for_good = rng_.percent(70);  // else it blinks, and has lost nothing
    machine_.unplug(disk, for_good);
    begin_losses();
    const Duration absence = seconds(rng_.percent(50) ? 2 : 60);
    co_await sleep_up_to(absence);
    if (for_good && rng_.percent(30)) {
        co_await offer_older_copy(older);
    }
    if (machine_.failed()) co_return;
    if (for_good && rng_.percent(60)) disk.lose_cache();
    disk.come_back();
    machine_.log("  the cache device is back");
    co_await wait_for_service();
    expect_losses();
    machine_.seen.add(Seen::cache_returns);
    --machine_.mishaps;
}

// Another device with the same uuids, as the cache was some time ago. Taking it would bring old
// data back (I38).
Task<void> Mishaps::offer_older_copy(std::shared_ptr<const SimDisk::Snapshot> older) {
    SimDisk& disk = machine_.cache();
    const DiskBytes bytes(disk);
    const JournalSeq newest = DiskChecker(bytes).newest_seq();
    const auto current = disk.snapshot();
    disk.restore(*older);
    if (DiskChecker(bytes).newest_seq() >= newest) {
        disk.restore(*current);  // nothing happened since
        co_return;
    }
    machine_.displaced = current;
    const std::uint64_t changes = disk.changes();
    disk.come_back();
    machine_.log("  an older copy of the cache device is there");
    co_await machine_.world().clock().sleep(seconds(5));
    // A set that nobody used meanwhile has not seen it.
    const bool seen = !machine_.holds_dead_handle() || !machine_.set()->failure().empty();
    if (seen && machine_.set()->failure().empty()) {
        machine_.fail("an older copy of the cache device was taken into service");
    } else if (disk.changes() != changes) {
        machine_.fail("an older copy of the cache device was written to");
    }
    if (machine_.failed()) co_return;
    machine_.seen.add(Seen::older_copies, seen);
    machine_.unplug(disk, true);
    disk.restore(*current);
    machine_.displaced = nullptr;
}

Task<void> Mishaps::backing_outage(Target& target) {
    SimDisk& disk = *target.backing;
    const Duration until = seconds(rng_.percent(50) ? 1 : 20);
    co_await sleep_up_to(until);
    machine_.log("  " + target.label + " is away");
    machine_.seen.add(Seen::backing_outages);
    ++machine_.mishaps;
    const bool for_good = rng_.percent(70);
    machine_.unplug(disk, for_good);
    const Duration absence = seconds(rng_.percent(50) ? 2 : 60);
    co_await sleep_up_to(absence);
    if (for_good && rng_.percent(70)) {
        machine_.seen.add(Seen::backing_losses);
        disk.lose_cache();
        target.model.backing_lost();
    }
    disk.come_back();
    machine_.log("  " + target.label + " is back");
    co_await wait_for_service();
    expect_losses();
    --machine_.mishaps;
}

}  // namespace uc::sim
