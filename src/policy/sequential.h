// Sequential runs of one volume: tells how long the run is that a request belongs to (format
// section 7.2).
#pragma once

#include <array>
#include <cstdint>

#include "base/units.h"

namespace uc::policy {

// Who issued a request, as far as the front end knows. Requests of an unknown origin share one id.
using TaskId = std::uint64_t;
inline constexpr TaskId kAnyTask = 0;

// Constant time per request, no allocation. About 8 KiB per volume.
class SequentialRuns {
public:
    static constexpr unsigned kRuns = 128;
    static constexpr Duration kExpiry = std::chrono::seconds(5);

    SequentialRuns();

    // Notes a request and returns the larger of its run's length so far (this request included) and
    // the average run length of its task, in sectors: the value that is compared with the
    // sequential cutoff and with the congestion limit.
    std::uint64_t observe(std::uint64_t start, std::uint64_t sectors, Instant now,
                          TaskId task = kAnyTask);

private:
    using Slot = std::uint8_t;
    static constexpr Slot kNone = 255;
    static constexpr unsigned kChains = 256;
    static constexpr unsigned kTasks = 64;

    struct Run {
        std::uint64_t end = 0;
        std::uint64_t bytes = 0;
        Instant expires{};
        Slot older = kNone, newer = kNone;  // by last use
        Slot next = kNone;                  // in the chain of its end
        bool listed = false;                // is in a chain
    };
    struct Task {
        TaskId id = kAnyTask;
        std::uint64_t run_bytes = 0;
        std::uint64_t average_bytes = 0;
    };

    static unsigned chain_of(std::uint64_t end);
    Slot find(std::uint64_t start, Instant now) const;
    void add_to_chain(Slot slot);
    void remove_from_chain(Slot slot);
    void make_newest(Slot slot);
    Task& task_of(TaskId id);

    std::array<Run, kRuns> runs_{};
    std::array<Slot, kChains> chains_{};
    std::array<Task, kTasks> tasks_{};
    Slot oldest_ = 0;
    Slot newest_ = kRuns - 1;
};

}  // namespace uc::policy
