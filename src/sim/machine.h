// A cache set on simulated disks, with a model of each of its volumes: formatted, opened, stopped,
// crashed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/sync.h"
#include "core/cache_set.h"
#include "core/steady_set.h"
#include "sim/coverage.h"
#include "sim/disk_handle.h"
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
    // Flushes that may fail to tell that writes before an outage or an error are lost.
    unsigned untold = 0;
    Stamp told = 0;  // when one failed last: those under way then may fail with it
    std::uint64_t data_offset() const { return plan.flash_only ? 0 : plan.data_offset; }
};

class Machine {
public:
    Machine(std::uint64_t seed, const Mutations& mutations, const Limits& limits = {});
    ~Machine();
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    SimWorld& world() { return world_; }
    Rng& rng() { return world_.rng(); }
    const Plan& plan() const { return plan_; }
    SimDisk& cache() { return *cache_; }
    std::deque<Target>& targets() { return targets_; }
    core::CacheSet* set() { return set_.get(); }
    core::SteadySet* steady() { return steady_; }  // null: a set that does not outlive outages
    const Limits& limits() const { return limits_; }
    Coverage seen;
    std::uint64_t ops = 0;  // of all clients so far
    bool ops_left() const { return ops < limits_.ops; }

    // Runs a task to its end, or to a crash. A task that never ends is a failure.
    Ended perform(Task<void> task);
    // The same for several at once.
    Ended perform_all(std::vector<Task<void>> tasks);

    // Opens the set and all its volumes.
    Task<void> open();
    // The same with a set that may be refused: then refusal() says why, and nothing has failed.
    Task<void> try_open();
    const std::string& refusal() const { return refusal_; }
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
    // Logs what happens to one sector of a volume.
    void trace(const std::string& label, std::uint64_t sector);
    // `sectors` 0: all of the volume.
    void trace_op(const Target& target, const std::string& what, std::uint64_t sector,
                  std::uint64_t sectors);
    void log_to(std::function<void(const std::string&)> sink) { sink_ = std::move(sink); }
    // How many things go wrong at present that users may see as errors.
    unsigned mishaps = 0;
    bool tolerant() const { return mishaps != 0; }
    // What the cache device has really, while an older copy stands in for it.
    std::shared_ptr<const SimDisk::Snapshot> displaced;
    // The disk is unplugged. `for_good`: what was opened on it does not work any more when it is
    // back. Only for steady sets.
    void unplug(SimDisk& disk, bool for_good);
    // The set still has a handle that is dead: it has not noticed.
    bool holds_dead_handle() const;
    // Adds the counters of the set that is about to go.
    void count_life();

private:
    using Device = core::SteadySet::Device;
    Device open_handle(SimDisk& disk);
    Task<Result<Device>> find(const ondisk::Superblock& wanted, const std::string& name);
    Task<Result<std::unique_ptr<core::CacheSet>>> open_set();
    Task<void> add_volumes();
    void count_writes(const SimDisk& disk, const io::IoRequest& request);
    void trace_request(const io::IoRequest& request);
    struct Traced {
        Target* target = nullptr;
        std::uint64_t sector = 0;
    };
    void format_cache();
    void format_backing(Target& target);
    Task<void> add_backing(Target& target);
    Task<Result<core::SetVolume*>> add_device(SimDisk& disk, core::AttachMode mode);
    Task<void> add_flash(Target& target);
    std::string describe_state();
    core::AttachMode draw_attach_mode(const Target& target);

    SimWorld world_;
    Plan plan_;
    Limits limits_;
    Rng engine_rng_;
    SimDisk* cache_ = nullptr;
    std::deque<Target> targets_;
    Traced traced_;
    core::Report report_;
    std::string refusal_;
    // The newest one of each disk is in use.
    std::vector<std::shared_ptr<DiskHandle>> handles_;
    std::unique_ptr<core::CacheSet> set_;
    core::SteadySet* steady_ = nullptr;
    unsigned depth_ = 0;
    std::unique_ptr<async::TaskGroup> group_;
    std::string failure_;
    std::function<void(const std::string&)> sink_;
};

}  // namespace uc::sim
