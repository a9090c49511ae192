// A disk with a volatile write cache, in virtual time, that does everything the contract of
// io/block_device.h allows: completes out of order, loses what was not flushed, tears what was in
// flight, fails where the plan says so.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "io/block_device.h"
#include "sim/contents.h"
#include "sim/disk_faults.h"
#include "sim/sim_clock.h"

namespace uc::sim {

struct SimDiskOptions {
    std::string name = "disk";
    std::uint64_t sectors = 0;
    std::uint32_t logical_block_sectors = 1;
    std::uint32_t atomic_sectors = 1;
    std::uint32_t optimal_io_sectors = 0;
    bool supports_discard = false;
    // Bounds of a request's duration.
    Duration fastest = std::chrono::microseconds(20);
    Duration slowest = std::chrono::microseconds(400);
    unsigned immediate_percent = 3;  // requests complete within submit()
};

enum class CrashKind : std::uint8_t {
    power_cut,      // what is in the disk's cache survives in pieces
    process_death,  // the disk's cache stays and can still be lost by a later power cut
};

// What went wrong by plan.
struct DiskMishaps {
    std::uint64_t errors = 0, flush_errors = 0, flips = 0;
};

class SimDisk;

// Sees every request; from here a run takes its crash points and its hash.
class DiskObserver {
public:
    // False: the machine is dead, the request never arrives.
    virtual bool submitted(const SimDisk& disk, const io::IoRequest& request) = 0;
    virtual void completed(const SimDisk& disk, const io::IoRequest& request) = 0;

protected:
    ~DiskObserver() = default;
};

class SimDisk final : public io::BlockDevice {
public:
    SimDisk(SimDiskOptions options, SimClock& clock, Rng rng, DiskObserver* observer);
    ~SimDisk() override;
    SimDisk(const SimDisk&) = delete;
    SimDisk& operator=(const SimDisk&) = delete;

    bool submit(io::IoRequest* request) override;
    std::uint64_t size_sectors() const override { return options_.sectors; }
    std::uint32_t logical_block_sectors() const override { return options_.logical_block_sectors; }
    std::uint32_t atomic_sectors() const override { return options_.atomic_sectors; }
    std::uint32_t optimal_io_sectors() const override { return options_.optimal_io_sectors; }
    bool supports_discard() const override { return options_.supports_discard; }
    const std::string& name() const override { return options_.name; }

    // Drops the requests in flight and settles what they and the write cache have left behind.
    void crash(CrashKind kind);

    // Both states, without what is in flight.
    struct Snapshot;
    std::shared_ptr<const Snapshot> snapshot() const;
    void restore(const Snapshot& snapshot);  // nothing may be in flight

    // Contents as a read would see them now, without a request.
    void peek(std::uint64_t sector, std::span<std::byte> out) const { now_.read(sector, out); }
    // Contents after a power cut that loses the whole write cache.
    void peek_durable(std::uint64_t sector, std::span<std::byte> out) const {
        durable_.read(sector, out);
    }
    // Puts bytes on the medium, durable at once (formatting, damage).
    void poke(std::uint64_t sector, std::span<const std::byte> in);

    void add_fault(const Fault& fault) { faults_.add(fault); }
    void clear_faults() { faults_.clear(); }
    DiskFaults& faults() { return faults_; }
    const DiskMishaps& mishaps() const { return mishaps_; }
    void forget_mishaps() { mishaps_ = {}; }
    // Requests submitted before `until` take `factor` times as long.
    void storm(Instant until, unsigned factor);
    // Requests submitted before `until` end after it.
    void hang(Instant until) { hang_until_ = until; }

    // The device is unplugged: what is in flight fails, done, half done or not at all, and so does
    // everything until it is back.
    void vanish();
    bool away() const { return away_; }
    // It had no power meanwhile: what its cache held survives in pieces.
    void lose_cache();
    void come_back() { away_ = false; }
    // Another process opens the disk: what a failed flush has dropped is seen to be gone. True if
    // there was any.
    bool settle_forgotten();
    // Requests that changed something, so far.
    std::uint64_t changes() const { return changes_; }

    std::size_t in_flight() const { return pending_.size(); }
    std::size_t unflushed() const { return cache_.size(); }

private:
    struct Pending;
    // A completed write in the disk's cache. `dead` sectors were overwritten durably since.
    struct Cached {
        std::uint64_t stamp = 0;
        std::uint64_t sector = 0;
        std::uint64_t sectors = 0;
        std::vector<std::byte> data;  // empty: zeroes
        std::vector<bool> dead;       // empty: none
    };
    enum class Fate : std::uint8_t { lost, whole, torn };

    Duration draw_delay();
    bool valid(const io::IoRequest& request) const;
    bool struck(io::IoRequest& request, std::uint64_t submitted_stamp);
    void flip_bit(io::IoRequest& request);
    void take_part(const io::IoRequest& request);
    void forget_some(std::uint64_t stamp);
    void finish(Pending& pending);
    void execute(io::IoRequest& request, std::uint64_t submitted_stamp);
    void take_write(const io::IoRequest& request);
    void kill_overlap(std::uint64_t sector, std::uint64_t sectors);
    void destage(const Cached& entry);
    void destage_before(std::uint64_t stamp);
    void limit_cache();
    void settle(const Cached& entry, Fate fate);
    void put(Contents& contents, const Cached& entry, std::uint64_t from,
             std::uint64_t count) const;
    Fate draw_fate(unsigned survive_percent);
    void settle_cache(std::size_t in_flight);

    SimDiskOptions options_;
    SimClock& clock_;
    Rng rng_;
    DiskObserver* observer_;
    Contents now_;
    Contents durable_;
    std::deque<Cached> cache_;  // in order of completion
    std::uint64_t cached_bytes_ = 0;
    std::uint64_t stamp_ = 0;  // counts submissions and completions
    std::list<Pending> pending_;
    DiskFaults faults_;
    DiskMishaps mishaps_;
    Instant storm_until_;
    unsigned storm_factor_ = 1;
    Instant hang_until_;
    bool away_ = false;
    bool forgotten_ = false;  // now_ shows what neither durable_ nor cache_ has
    std::uint64_t changes_ = 0;
};

struct SimDisk::Snapshot {
    Contents now;
    Contents durable;
    std::deque<Cached> cache;
    std::uint64_t cached_bytes = 0;
};

}  // namespace uc::sim
