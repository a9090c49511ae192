// A cache set on simulated disks, with a model of each of its volumes: formatted, opened, stopped,
// crashed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "async/sync.h"
#include "core/cache_set.h"
#include "sim/model.h"
#include "sim/plan.h"
#include "sim/sim_world.h"

namespace uc::sim {

// A volume, what it should hold, and what lies below it.
struct Target {
    Target(VolumePlan what, std::uint32_t number)
        : plan(std::move(what)),
          model(number, plan.sectors,
                plan.flash_only ? VolumeModel::Discards::zeroes : VolumeModel::Discards::anything),
          label((plan.flash_only ? "flash" : "back") + std::to_string(number)) {}

    VolumePlan plan;
    VolumeModel model;
    std::string label;
    SimDisk* backing = nullptr;         // null: flash-only
    core::SetVolume* volume = nullptr;  // null: not open
    bool created = false;               // flash-only: create_flash_volume() returned
    std::uint64_t data_offset() const { return plan.flash_only ? 0 : plan.data_offset; }
};

class Machine {
public:
    Machine(std::uint64_t seed, const Mutations& mutations);
    ~Machine();
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    SimWorld& world() { return world_; }
    Rng& rng() { return world_.rng(); }
    const Plan& plan() const { return plan_; }
    SimDisk& cache() { return *cache_; }
    std::deque<Target>& targets() { return targets_; }
    core::CacheSet* set() { return set_.get(); }

    // Runs a task to its end, or to a crash. A task that never ends is a failure.
    Ended perform(Task<void> task);
    // The same for several at once.
    Ended perform_all(std::vector<Task<void>> tasks);

    // Opens the set and all its volumes.
    Task<void> open();
    Task<void> stop();
    // Power cut or death of the process, in whatever state; the set is gone afterwards.
    void crash(CrashKind kind);
    // Destroys a stopped set.
    void close();

    // The first failure ends the run.
    void fail(std::string what);
    bool failed() const { return !failure_.empty(); }
    const std::string& failure() const { return failure_; }
    void log(const std::string& line);
    void log_to(std::function<void(const std::string&)> sink) { sink_ = std::move(sink); }
    // Errors of the volumes are expected now.
    bool tolerant = false;

private:
    void format_cache();
    void format_backing(Target& target);
    Task<void> add_backing(Target& target);
    Task<void> add_flash(Target& target);
    std::string describe_state();
    core::AttachMode draw_attach_mode(const Target& target);

    SimWorld world_;
    Plan plan_;
    Rng engine_rng_;
    SimDisk* cache_ = nullptr;
    std::deque<Target> targets_;
    core::Report report_;
    std::unique_ptr<core::CacheSet> set_;
    std::unique_ptr<async::TaskGroup> group_;
    std::string failure_;
    std::function<void(const std::string&)> sink_;
};

}  // namespace uc::sim
