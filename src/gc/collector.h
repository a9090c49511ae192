// Garbage collection. Space is accounted for as it changes, so what is left to collect are old
// pointers: a pass walks all leaves, one at a time, drops stale keys where they pile up, joins
// small leaves, and advances each bucket's last_gc, without which 8-bit generations would run out
// (format sections 3.2, 6).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "alloc/bucket_table.h"
#include "async/sync.h"
#include "async/task.h"
#include "base/result.h"
#include "base/time_stats.h"
#include "index/tree.h"
#include "io/clock.h"

namespace uc::gc {

class Collector {
public:
    Collector(io::Clock& clock, alloc::BucketTable& table, index::Tree& tree);

    // Called once with the error when passes begin to fail, and once with nothing when one has
    // succeeded again. Without passes, buckets run out of generations and cannot be reused.
    using Tell = std::function<void(const std::optional<Error>& trouble)>;
    void on_trouble(Tell tell) { tell_ = std::move(tell); }

    void run(async::TaskGroup& group);
    void stop();
    // Starts a pass soon.
    void request();
    // Counts data written to the cache: a pass is due after 1/16 of the device.
    void inserted(std::uint64_t sectors);
    // Runs a pass now, after one that is running.
    Task<Result<void>> pass();

    bool running() const { return running_; }
    std::uint64_t passes() const { return passes_; }
    const TimeStats& times() const { return times_; }
    // What the last complete pass saw.
    const index::Tally& tally() const { return tally_; }

private:
    Task<void> loop();
    Task<Result<void>> walk();
    Task<void> wait_after_failure();

    io::Clock& clock_;
    alloc::BucketTable& table_;
    index::Tree& tree_;
    async::Event wake_;
    async::Mutex one_pass_;
    std::uint64_t credit_ = 0;
    bool requested_ = false;
    bool running_ = false;
    bool stopping_ = false;
    bool failing_ = false;  // no pass has succeeded since one failed
    Tell tell_;
    std::uint64_t passes_ = 0;
    TimeStats times_;
    index::Tally tally_;
};

}  // namespace uc::gc
