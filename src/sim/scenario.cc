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
#include "sim/damage.h"
#include "sim/load.h"
#include "sim/machine.h"
#include "sim/mishaps.h"

namespace uc::sim {

namespace {

class Scenario {
public:
    explicit Scenario(const ScenarioOptions& options)
        : machine_(options.seed, options.mutations, options.limits),
          rng_(machine_.rng().fork()),
          mishaps_(machine_, rng_.fork()) {
        machine_.log_to(options.log);
        machine_.log(machine_.plan().describe());
        machine_.trace(options.trace_volume, options.trace_sector);
    }

    ScenarioResult run() {
        const unsigned cycles = machine_.plan().cycles;
        if (machine_.plan().aged) grow_old();
        for (unsigned i = 0; i < cycles && !machine_.failed(); ++i) {
            machine_.log("life " + std::to_string(i + 1));
            const bool deep = machine_.plan().deep && i == 0;
            Ended ended = live(deep);
            if (machine_.failed()) break;
            if (ended == Ended::done && i + 1 == cycles) ended = farewell();
            if (machine_.failed()) break;
            end_life(ended);
            if (!machine_.failed()) audit();
        }
        machine_.count_life();
        ScenarioResult result;
        result.failure = machine_.failure();
        result.hash = machine_.world().hash();
        result.events = machine_.world().events();
        result.seen = machine_.seen;
        return result;
    }

private:
    void grow_old();
    Ended live(bool deep);
    Ended open();
    Ended open_damaged();
    Ended phases();
    Ended load_phase(const Phase& phase, std::vector<Task<void>> beside = {});
    Ended any_phase();
    Ended phase_with_faults();
    Ended phase_with_outage();
    Ended after_mishap();
    void administrate_beside(std::vector<Task<void>>& tasks);
    Ended administrate();
    Ended administrate_volume();
    Ended farewell();
    void end_life(Ended ended);
    void audit();
    void log_counters();
    void plan_crash(std::uint64_t most);
    Target* any_backed();
    Task<void> set_mode(Target& target, ondisk::CacheMode mode);
    Task<void> write_back(Target& target);
    Task<void> collect();
    Task<void> check();
    Task<void> detach(Target& target);
    Task<void> leave_and_return(Target& target);
    void expect(const char* what, const Result<void>& result, bool lenient = false);

    Machine machine_;
    Rng rng_;
    Mishaps mishaps_;
    std::unique_ptr<Load> load_;
    GenerationWatch generations_;
    bool opening_ = false;
};

void Scenario::expect(const char* what, const Result<void>& result, bool lenient) {
    if (result || lenient || machine_.tolerant()) return;
    machine_.fail(std::string(what) + " failed: " + name_of(result.error().code) + " (" +
                  result.error().what + ")");
}

void Scenario::plan_crash(std::uint64_t most) {
    CrashPlan plan;
    plan.at = static_cast<CrashPlan::At>(rng_.below(3));
    plan.count = 1 + rng_.below(most);
    if (plan.at != CrashPlan::At::time && rng_.percent(50)) {
        plan.near = static_cast<CrashPlan::Near>(1 + rng_.below(4));
        plan.count = 1 + rng_.below(most / (plan.near == CrashPlan::Near::journal ? 8 : 30) + 2);
        plan.then = rng_.below(6);
    }
    plan.time = machine_.world().clock().now() + std::chrono::microseconds(rng_.below(most * 2000));
    machine_.world().plan_crash(plan);
}

// A set that was used for years: made, stopped, its generations moved on.
void Scenario::grow_old() {
    if (machine_.perform(machine_.open()) != Ended::done || machine_.failed()) return;
    if (machine_.perform(machine_.stop()) != Ended::done || machine_.failed()) return;
    machine_.close();
    age_generations(machine_.cache(), rng_);
    audit();
}

Ended Scenario::open() {
    opening_ = true;
    if (rng_.percent(20)) plan_crash(60);  // while it opens, or soon after
    Ended ended = Ended::done;
    if (machine_.plan().damage && rng_.percent(50)) ended = open_damaged();
    if (ended != Ended::done || machine_.failed()) return ended;
    if (machine_.set() == nullptr) ended = machine_.perform(machine_.open());
    if (ended == Ended::done) opening_ = false;
    return ended;
}

// Wrong bytes must be noticed. A set that is refused keeps every byte (I27), so that what was wrong
// can be put right.
Ended Scenario::open_damaged() {
    const std::optional<Damage> damaged = damage(machine_.cache(), rng_);
    if (!damaged) return Ended::done;
    machine_.log("  damaged: " + damaged->what);
    machine_.world().forget_crash();
    std::uint64_t before = 0;
    for (const auto& disk : machine_.world().disks()) before += disk->changes();
    const Ended ended = machine_.perform(machine_.try_open());
    if (machine_.failed()) return ended;
    if (machine_.set() != nullptr) {
        machine_.seen.add(Seen::damage_survived);
        return ended;
    }
    std::uint64_t after = 0;
    for (const auto& disk : machine_.world().disks()) after += disk->changes();
    if (before != after) machine_.fail("a refused set was written to: " + machine_.refusal());
    undo(*damaged, machine_.cache());
    if (ended != Ended::done) return ended;
    machine_.log("  refused: " + machine_.refusal());
    machine_.seen.add(Seen::damage_refused);
    return ended;
}

Ended Scenario::live(bool deep) {
    Ended ended = open();
    if (ended != Ended::done || machine_.failed()) return ended;
    const std::uint64_t magic = machine_.set()->superblock().set_uuid.magic();
    machine_.cache().faults().know(magic);
    machine_.world().know(magic);
    if (rng_.percent(60)) {
        std::vector<Task<void>> readers;
        for (Target& target : machine_.targets()) {
            readers.push_back(verify_volume(machine_, target));
        }
        ended = machine_.perform_all(std::move(readers));
        if (ended != Ended::done || machine_.failed()) return ended;
        // What was read is known to the users, however soon the machine dies.
        if (rng_.percent(8)) return Ended::crash;
    }
    machine_.world().forget_crash();
    ended = machine_.perform(check());
    if (ended != Ended::done || machine_.failed()) return ended;
    if (deep) ended = load_phase(scatter_phase());
    if (ended != Ended::done || machine_.failed()) return ended;
    return phases();
}

Ended Scenario::phases() {
    const bool will_crash = rng_.percent(75);
    const std::uint64_t phases = 1 + rng_.below(5);
    // Mostly late, when there is something in the cache to lose.
    const std::uint64_t last =
        will_crash ? std::max(rng_.below(phases), rng_.below(phases)) : phases;
    for (std::uint64_t i = 0; i < phases; ++i) {
        if (i == last) plan_crash(rng_.percent(50) ? 300 : 3000);
        Ended ended = any_phase();
        if (ended != Ended::done || machine_.failed()) return ended;
        ended = administrate();
        if (ended != Ended::done || machine_.failed()) return ended;
    }
    return Ended::done;
}

Ended Scenario::any_phase() {
    const Plan& plan = machine_.plan();
    if (plan.outages && rng_.percent(50)) return phase_with_outage();
    if (plan.faults && rng_.percent(40)) return phase_with_faults();
    std::vector<Task<void>> beside;
    administrate_beside(beside);
    return load_phase(draw_phase(rng_), std::move(beside));
}

Ended Scenario::load_phase(const Phase& phase, std::vector<Task<void>> beside) {
    machine_.log("  load: ops " + std::to_string(phase.ops) + ", clients " +
                 std::to_string(phase.clients) + ", up to " + std::to_string(phase.max_sectors) +
                 " sectors, pattern " + std::to_string(static_cast<int>(phase.pattern)));
    load_ = std::make_unique<Load>(machine_, phase);
    for (Task<void>& task : load_->clients()) beside.push_back(std::move(task));
    return machine_.perform_all(std::move(beside));
}

Target* Scenario::any_backed() {
    auto& targets = machine_.targets();
    Target& target = targets[rng_.below(targets.size())];
    return target.plan.flash_only ? nullptr : &target;
}

// Some administration happens under load.
void Scenario::administrate_beside(std::vector<Task<void>>& tasks) {
    if (machine_.limits().faults && rng_.percent(15)) mishaps_.storm();
    if (!machine_.limits().administration) return;
    if (Target* const target = any_backed()) {
        if (rng_.percent(25)) {
            tasks.push_back(set_mode(*target, static_cast<ondisk::CacheMode>(rng_.below(4))));
        }
        if (rng_.percent(15)) tasks.push_back(write_back(*target));
        if (rng_.percent(6)) tasks.push_back(leave_and_return(*target));
    }
    if (rng_.percent(10)) tasks.push_back(collect());
}

// Requests may fail now; what was acknowledged must still be there, at once and when the set is
// opened again.
Ended Scenario::phase_with_faults() {
    machine_.log("  with faults");
    mishaps_.begin_faults();
    std::vector<Task<void>> beside;
    administrate_beside(beside);
    const Ended ended = load_phase(draw_phase(rng_), std::move(beside));
    mishaps_.end_faults();
    if (ended != Ended::done || machine_.failed()) return ended;
    return after_mishap();
}

Ended Scenario::phase_with_outage() {
    std::vector<Task<void>> beside;
    Target* const target = any_backed();
    if (target == nullptr || rng_.percent(60)) {
        beside.push_back(mishaps_.cache_outage());
    } else {
        beside.push_back(mishaps_.backing_outage(*target));
    }
    administrate_beside(beside);
    Phase phase = draw_phase(rng_);
    phase.pauses = std::max(phase.pauses, 3u);  // so that it goes on meanwhile
    const Ended ended = load_phase(phase, std::move(beside));
    if (ended != Ended::done || machine_.failed()) return ended;
    return after_mishap();
}

// Half of the lives go on, if the set does.
Ended Scenario::after_mishap() {
    if (machine_.steady() == nullptr && !machine_.set()->failure().empty()) return Ended::crash;
    if (rng_.percent(40)) return Ended::crash;
    Ended ended = machine_.perform(mishaps_.wait_for_service());
    if (ended != Ended::done || machine_.failed()) return ended;
    if (machine_.holds_dead_handle()) return Ended::crash;
    machine_.seen.add(Seen::survived);
    std::vector<Task<void>> readers;
    for (Target& target : machine_.targets()) readers.push_back(verify_volume(machine_, target));
    return machine_.perform_all(std::move(readers));
}

Ended Scenario::administrate() {
    Ended ended = Ended::done;
    if (!machine_.limits().administration) return ended;
    if (rng_.percent(30)) ended = administrate_volume();
    if (ended != Ended::done || machine_.failed()) return ended;
    if (rng_.percent(15)) ended = machine_.perform(collect());
    if (ended != Ended::done || machine_.failed()) return ended;
    if (rng_.percent(40)) ended = machine_.perform(check());
    return ended;
}

Ended Scenario::administrate_volume() {
    Target* const target = any_backed();
    if (target == nullptr) return Ended::done;
    if (rng_.percent(40)) {
        target->volume->options().writeback_running = true;
        target->volume->options().writeback_percent = 0;
        target->volume->options_changed();
    }
    if (rng_.percent(50)) return machine_.perform(write_back(*target));
    return machine_.perform(set_mode(*target, static_cast<ondisk::CacheMode>(rng_.below(4))));
}

Task<void> Scenario::set_mode(Target& target, ondisk::CacheMode mode) {
    const bool lenient = machine_.tolerant();
    Result<void> result = co_await target.volume->set_cache_mode(mode);
    expect("set_cache_mode", result, lenient);
    machine_.seen.add(Seen::mode_changes);
}

Task<void> Scenario::write_back(Target& target) {
    const bool lenient = machine_.tolerant() || target.untold > 0;  // it flushes, too
    Result<void> result = co_await target.volume->write_back_all();
    expect("write_back_all", result, lenient);
}

Task<void> Scenario::collect() {
    const bool lenient = machine_.tolerant();
    Result<void> result = co_await machine_.set()->collect_garbage();
    expect("collect_garbage", result, lenient);
}

Task<void> Scenario::check() {
    const std::vector<std::string> broken = co_await machine_.set()->check_invariants();
    if (!broken.empty()) machine_.fail("invariant: " + broken.front());
    if (!machine_.set()->failure().empty()) machine_.fail(machine_.set()->failure());
}

Task<void> Scenario::detach(Target& target) {
    if (!target.volume->attached()) co_return;
    const bool lenient = machine_.tolerant() || target.untold > 0;
    Result<void> result = co_await machine_.set()->detach(*target.volume);
    expect("detach", result, lenient);
    if (!result) co_return;
    machine_.seen.add(Seen::detaches);
    if (!machine_.failed()) audit_backing_alone(machine_, target);
}

// Detached in the middle, and perhaps attached again.
Task<void> Scenario::leave_and_return(Target& target) {
    const Duration length = std::chrono::milliseconds(rng_.below(2000));
    co_await machine_.world().clock().sleep(length);
    co_await detach(target);
    if (target.volume->attached() || machine_.failed() || rng_.percent(30)) co_return;
    co_await machine_.world().clock().sleep(length);
    const bool lenient = machine_.tolerant();
    core::Report report;
    Result<void> result = co_await machine_.set()->reattach(*target.volume, report);
    // A set that came back from an outage may have taken it in by itself.
    if (!result && result.error().code == Errc::busy && target.volume->attached()) co_return;
    expect(("attaching again (" + report.refusal + ")").c_str(), result, lenient);
    machine_.seen.add(Seen::reattaches, result.has_value());
}

Ended Scenario::farewell() {
    if (rng_.percent(30)) plan_crash(200);
    for (Target& target : machine_.targets()) {
        if (target.plan.flash_only) continue;
        const Ended ended = machine_.perform(detach(target));
        if (ended != Ended::done || machine_.failed()) return ended;
    }
    machine_.world().forget_crash();
    return load_phase(draw_phase(rng_));  // the volumes stay usable without the cache
}

void Scenario::audit() {
    audit_disks(machine_);
    machine_.seen.add(Seen::gen_wraps, generations_.wraps_since(machine_.cache()));
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
    machine_.count_life();
    if (ended == Ended::done && rng_.percent(25)) ended = Ended::crash;  // with nothing in flight
    if (ended == Ended::done) {
        machine_.log("  stop");
        ended = machine_.perform(machine_.stop());
        if (machine_.failed()) return;
    }
    if (ended == Ended::done && rng_.percent(50)) {
        machine_.close();
        machine_.seen.add(Seen::orderly_stops);
        return;
    }
    machine_.seen.add(Seen::deaths_while_opening, std::exchange(opening_, false));
    const CrashKind kind = rng_.percent(80) ? CrashKind::power_cut : CrashKind::process_death;
    machine_.log(kind == CrashKind::power_cut ? "  power cut" : "  process death");
    machine_.crash(kind);
}

}  // namespace

ScenarioResult run_scenario(const ScenarioOptions& options) {
    Scenario scenario(options);
    return scenario.run();
}

std::string replay_line(std::uint64_t seed, const Limits& limits) {
    const std::string text = limits.text();
    return "ucsim --seed " + std::to_string(seed) + (text.empty() ? "" : " --limits " + text);
}

}  // namespace uc::sim
