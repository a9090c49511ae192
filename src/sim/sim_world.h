// One simulated machine: clock, executor, randomness and disks. What happens in it is a function of
// the seed; `hash()` sums up every disk request, so two runs can be compared.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
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
    // Most rules are about a few kinds of writes, so some machines die near one.
    enum class Near : std::uint8_t { anything, superblock, journal, node, priorities };
    At at = At::submission;
    Near near = Near::anything;
    std::uint64_t count = 1;  // of writes, flushes and discards, or of those near which to die
    std::uint64_t then = 0;   // of any, after the last of those
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

    // Is shown every request that reaches a disk.
    void watch(std::function<void(const SimDisk&, const io::IoRequest&)> watcher) {
        watcher_ = std::move(watcher);
    }

    // Of the set, to tell its structures.
    void know(std::uint64_t set_magic) { set_magic_ = set_magic; }

    // Adds to the hash.
    void note(std::uint64_t event);
    std::uint64_t hash() const { return hash_; }
    std::uint64_t events() const { return events_; }

private:
    bool step(Instant deadline);
    void count_down(CrashPlan::At at, const io::IoRequest& request);
    bool is_near(const io::IoRequest& request) const;
    bool submitted(const SimDisk& disk, const io::IoRequest& request) override;
    void completed(const SimDisk& disk, const io::IoRequest& request) override;
    void note_request(unsigned what, const SimDisk& disk, const io::IoRequest& request);

    Rng rng_;
    Rng order_;
    SimClock clock_;
    async::Executor executor_;
    std::vector<std::unique_ptr<SimDisk>> disks_;
    std::function<void(const SimDisk&, const io::IoRequest&)> watcher_;
    CrashPlan plan_;
    std::uint64_t set_magic_ = 0;
    bool planned_ = false;
    bool dead_ = false;
    std::uint64_t hash_ = 0xcbf29ce484222325;
    std::uint64_t events_ = 0;
};

}  // namespace uc::sim
