// One simulated machine: clock, executor, randomness and disks. What happens in it is a function of
// the seed; `hash()` sums up every disk request, so two runs can be compared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "async/executor.h"
#include "async/task.h"
#include "base/rng.h"
#include "sim/sim_clock.h"
#include "sim/sim_disk.h"

namespace uc::sim {

// When the machine dies. Counted over all disks from the moment of planning.
struct CrashPlan {
    enum class At : std::uint8_t { submission, completion, time };
    At at = At::submission;
    std::uint64_t count = 1;  // of writes, flushes and discards
    Instant time;
};

enum class Ended : std::uint8_t {
    done,   // what was waited for came true
    crash,  // the planned crash is due; call crash()
    stuck,  // nothing can happen any more, or far too much time went by
};

class SimWorld final : private DiskObserver {
public:
    explicit SimWorld(std::uint64_t seed);
    ~SimWorld();
    SimWorld(const SimWorld&) = delete;
    SimWorld& operator=(const SimWorld&) = delete;

    Rng& rng() { return rng_; }
    SimClock& clock() { return clock_; }
    async::Executor& executor() { return executor_; }
    SimDisk& add_disk(SimDiskOptions options);
    const std::vector<std::unique_ptr<SimDisk>>& disks() const { return disks_; }

    // Lets things happen until `done`. `limit`: virtual time that this may take.
    template <class Predicate>
    Ended run_until(Predicate done, Duration limit) {
        const Instant deadline = clock_.now() + limit;
        while (true) {
            if (crash_due()) return Ended::crash;
            if (done()) return Ended::done;
            if (!step(deadline)) return Ended::stuck;
        }
    }

    void plan_crash(const CrashPlan& plan);
    void forget_crash() { planned_ = false; }
    bool crash_due() const { return dead_; }
    // Disks lose their requests in flight, every task is destroyed. The caller then destroys what
    // the tasks worked on and may start again.
    void crash(CrashKind kind);

    // Adds to the hash.
    void note(std::uint64_t event);
    std::uint64_t hash() const { return hash_; }
    std::uint64_t events() const { return events_; }

private:
    bool step(Instant deadline);
    void count_down(CrashPlan::At at, const io::IoRequest& request);
    bool submitted(const SimDisk& disk, const io::IoRequest& request) override;
    void completed(const SimDisk& disk, const io::IoRequest& request) override;
    void note_request(unsigned what, const SimDisk& disk, const io::IoRequest& request);

    Rng rng_;
    Rng order_;
    SimClock clock_;
    async::Executor executor_;
    std::vector<std::unique_ptr<SimDisk>> disks_;
    CrashPlan plan_;
    bool planned_ = false;
    bool dead_ = false;
    std::uint64_t hash_ = 0xcbf29ce484222325;
    std::uint64_t events_ = 0;
};

}  // namespace uc::sim
