// The course of a run: several lives of one cache set on the same disks. Each life opens the set,
// reads back what must be there, runs a few phases of load with administration in between, and ends
// in an orderly stop, a power cut or the death of the process, at any request, also while opening.
// Between two lives the disks are audited without the engine. The last life writes everything back,
// detaches the backing devices and checks that each holds everything on its own.

#include "sim/scenario.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "sim/audit.h"
#include "sim/load.h"
#include "sim/machine.h"

namespace uc::sim {

namespace {

class Scenario {
public:
    explicit Scenario(const ScenarioOptions& options)
        : machine_(options.seed, options.mutations), rng_(machine_.rng().fork()) {
        machine_.log_to(options.log);
        machine_.log(machine_.plan().describe());
    }

    ScenarioResult run() {
        const unsigned cycles = machine_.plan().cycles;
        for (unsigned i = 0; i < cycles && !machine_.failed(); ++i) {
            machine_.log("life " + std::to_string(i + 1));
            Ended ended = live();
            if (machine_.failed()) break;
            if (ended == Ended::done && i + 1 == cycles) ended = farewell();
            if (machine_.failed()) break;
            end_life(ended);
            if (!machine_.failed()) audit_disks(machine_);
        }
        ScenarioResult result;
        result.failure = machine_.failure();
        result.hash = machine_.world().hash();
        result.events = machine_.world().events();
        result.crashes = crashes_;
        return result;
    }

private:
    Ended live();
    Ended load_phase();
    Ended phase_with_faults();
    void add_faults();
    Ended administrate();
    Ended administrate_volume();
    Ended farewell();
    void end_life(Ended ended);
    void log_counters();
    void plan_crash(std::uint64_t most);
    Task<void> set_mode(Target& target, ondisk::CacheMode mode);
    Task<void> write_back(Target& target);
    Task<void> collect();
    Task<void> check();
    Task<void> detach(Target& target);
    void expect(const char* what, const Result<void>& result);

    Machine machine_;
    Rng rng_;
    std::unique_ptr<Load> load_;
    unsigned crashes_ = 0;
};

void Scenario::expect(const char* what, const Result<void>& result) {
    if (result || machine_.tolerant) return;
    machine_.fail(std::string(what) + " failed: " + name_of(result.error().code) + " (" +
                  result.error().what + ")");
}

void Scenario::plan_crash(std::uint64_t most) {
    CrashPlan plan;
    plan.at = static_cast<CrashPlan::At>(rng_.below(3));
    plan.count = 1 + rng_.below(most);
    plan.time = machine_.world().clock().now() + std::chrono::microseconds(rng_.below(most * 2000));
    machine_.world().plan_crash(plan);
}

Ended Scenario::live() {
    if (rng_.percent(20)) plan_crash(60);  // while it opens, or soon after
    Ended ended = machine_.perform(machine_.open());
    if (ended != Ended::done || machine_.failed()) return ended;
    if (rng_.percent(60)) {
        std::vector<Task<void>> readers;
        for (Target& target : machine_.targets()) {
            readers.push_back(verify_volume(machine_, target));
        }
        ended = machine_.perform_all(std::move(readers));
        if (ended != Ended::done || machine_.failed()) return ended;
    }
    machine_.world().forget_crash();
    ended = machine_.perform(check());
    if (ended != Ended::done || machine_.failed()) return ended;
    const bool will_crash = rng_.percent(75);
    const std::uint64_t phases = 1 + rng_.below(5);
    // Mostly late, when there is something in the cache to lose.
    const std::uint64_t last =
        will_crash ? std::max(rng_.below(phases), rng_.below(phases)) : phases;
    for (std::uint64_t i = 0; i < phases; ++i) {
        if (i == last) plan_crash(rng_.percent(50) ? 300 : 3000);
        const bool faults = machine_.plan().faults && rng_.percent(40);
        ended = faults ? phase_with_faults() : load_phase();
        if (ended != Ended::done || machine_.failed()) return ended;
        ended = administrate();
        if (ended != Ended::done || machine_.failed()) return ended;
    }
    return Ended::done;
}

Ended Scenario::load_phase() {
    const Phase phase = draw_phase(rng_);
    machine_.log("  load: ops " + std::to_string(phase.ops) + ", clients " +
                 std::to_string(phase.clients) + ", up to " + std::to_string(phase.max_sectors) +
                 " sectors, pattern " + std::to_string(static_cast<int>(phase.pattern)));
    load_ = std::make_unique<Load>(machine_, phase);
    std::vector<Task<void>> tasks = load_->clients();
    // Some administration happens under load.
    auto& targets = machine_.targets();
    Target& target = targets[rng_.below(targets.size())];
    if (!target.plan.flash_only && rng_.percent(25)) {
        tasks.push_back(set_mode(target, static_cast<ondisk::CacheMode>(rng_.below(4))));
    }
    if (!target.plan.flash_only && rng_.percent(10)) tasks.push_back(write_back(target));
    if (rng_.percent(10)) tasks.push_back(collect());
    if (rng_.percent(15)) {
        SimDisk& disk = *machine_.world().disks()[rng_.below(machine_.world().disks().size())];
        disk.storm(machine_.world().clock().now() + std::chrono::seconds(1), 50);
    }
    return machine_.perform_all(std::move(tasks));
}

void Scenario::add_faults() {
    const auto& disks = machine_.world().disks();
    for (std::uint64_t i = 1 + rng_.below(3); i > 0; --i) {
        SimDisk& disk = *disks[rng_.below(disks.size())];
        Fault fault;
        fault.sectors = 1 + rng_.below(disk.size_sectors() / 8);
        fault.sector = rng_.below(disk.size_sectors() - fault.sectors);
        fault.reads = rng_.percent(60);
        fault.writes = !fault.reads || rng_.percent(30);
        fault.times = rng_.percent(80) ? 1 + static_cast<std::uint32_t>(rng_.below(5)) : 0;
        disk.add_fault(fault);
    }
}

// Requests may fail now; what was acknowledged must still be there when the set is opened again.
Ended Scenario::phase_with_faults() {
    machine_.log("  with faults");
    machine_.tolerant = true;
    add_faults();
    const Ended ended = load_phase();
    for (const auto& disk : machine_.world().disks()) disk->clear_faults();
    machine_.tolerant = false;
    if (ended != Ended::done || machine_.failed()) return ended;
    return Ended::crash;
}

Ended Scenario::administrate() {
    Ended ended = Ended::done;
    if (rng_.percent(30)) ended = administrate_volume();
    if (ended != Ended::done || machine_.failed()) return ended;
    if (rng_.percent(15)) ended = machine_.perform(collect());
    if (ended != Ended::done || machine_.failed()) return ended;
    if (rng_.percent(40)) ended = machine_.perform(check());
    return ended;
}

Ended Scenario::administrate_volume() {
    auto& targets = machine_.targets();
    Target& target = targets[rng_.below(targets.size())];
    if (target.plan.flash_only) return Ended::done;
    if (rng_.percent(40)) {
        target.volume->options().writeback_running = true;
        target.volume->options().writeback_percent = 0;
        target.volume->options_changed();
    }
    if (rng_.percent(50)) return machine_.perform(write_back(target));
    return machine_.perform(set_mode(target, static_cast<ondisk::CacheMode>(rng_.below(4))));
}

Task<void> Scenario::set_mode(Target& target, ondisk::CacheMode mode) {
    Result<void> result = co_await target.volume->set_cache_mode(mode);
    expect("set_cache_mode", result);
}

Task<void> Scenario::write_back(Target& target) {
    Result<void> result = co_await target.volume->write_back_all();
    expect("write_back_all", result);
}

Task<void> Scenario::collect() {
    Result<void> result = co_await machine_.set()->collect_garbage();
    expect("collect_garbage", result);
}

Task<void> Scenario::check() {
    const std::vector<std::string> broken = co_await machine_.set()->check_invariants();
    if (!broken.empty()) machine_.fail("invariant: " + broken.front());
    if (!machine_.set()->failure().empty()) machine_.fail(machine_.set()->failure());
}

Task<void> Scenario::detach(Target& target) {
    Result<void> result = co_await machine_.set()->detach(*target.volume);
    expect("detach", result);
    if (!machine_.failed()) audit_backing_alone(machine_, target);
}

Ended Scenario::farewell() {
    if (rng_.percent(30)) plan_crash(200);
    for (Target& target : machine_.targets()) {
        if (target.plan.flash_only) continue;
        const Ended ended = machine_.perform(detach(target));
        if (ended != Ended::done || machine_.failed()) return ended;
    }
    machine_.world().forget_crash();
    return load_phase();  // the volumes stay usable without the cache
}

// Tells whether the load reached what it is meant to reach.
void Scenario::log_counters() {
    const core::CacheSet* const set = machine_.set();
    if (set == nullptr) return;
    const core::SetStats stats = set->stats();
    std::string line =
        "  did: reused " + std::to_string(stats.buckets_invalidated) + ", tables " +
        std::to_string(stats.prio_writes) + ", splits " + std::to_string(stats.node_splits) +
        ", merges " + std::to_string(stats.node_merges) + ", collections " +
        std::to_string(stats.gc_passes) + ", entries " + std::to_string(stats.journal_writes) +
        ", depth " + std::to_string(set->tree_depth()) + ", in use " +
        std::to_string(set->in_use_percent()) + "%";
    for (const core::SetVolume* volume : set->volumes()) {
        const core::VolumeStats& one = volume->stats();
        line += "; hits " + std::to_string(one.cache_hits) + " fills " +
                std::to_string(one.filled_sectors) + " written back " +
                std::to_string(one.writeback_sectors);
    }
    machine_.log(line);
}

void Scenario::end_life(Ended ended) {
    log_counters();
    if (ended == Ended::done) {
        machine_.log("  stop");
        ended = machine_.perform(machine_.stop());
        if (machine_.failed()) return;
    }
    if (ended == Ended::done && rng_.percent(50)) {
        machine_.close();
        return;
    }
    const CrashKind kind = rng_.percent(80) ? CrashKind::power_cut : CrashKind::process_death;
    machine_.log(kind == CrashKind::power_cut ? "  power cut" : "  process death");
    ++crashes_;
    machine_.crash(kind);
}

}  // namespace

ScenarioResult run_scenario(const ScenarioOptions& options) {
    Scenario scenario(options);
    return scenario.run();
}

std::string failure_line(std::uint64_t seed, const ScenarioResult& result) {
    return "ucsim --seed " + std::to_string(seed) + ": " + result.failure;
}

}  // namespace uc::sim
