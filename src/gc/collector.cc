#include "gc/collector.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "io/timed_wait.h"

namespace uc::gc {

namespace {
// A leaf that stays unreadable must not have the index read all the time. Shorter than what a write
// waits for a free bucket: it must not fail when the fault is gone.
constexpr Duration kRetry = std::chrono::seconds(5);
}  // namespace

Collector::Collector(io::Clock& clock, alloc::BucketTable& table, index::Tree& tree)
    : clock_(clock), table_(table), tree_(tree) {}

void Collector::run(async::TaskGroup& group) {
    group.spawn(loop());
}

void Collector::stop() {
    stopping_ = true;
    wake_.notify();
}

void Collector::request() {
    requested_ = true;
    wake_.notify();
}

void Collector::inserted(std::uint64_t sectors) {
    credit_ += sectors;
    const std::uint64_t device = table_.geometry().nbuckets * table_.geometry().bucket_sectors;
    if (credit_ < device / 16) return;
    credit_ = 0;
    request();
}

Task<void> Collector::loop() {
    while (!stopping_) {
        if (!requested_) {
            co_await wake_.wait();
            continue;
        }
        requested_ = false;
        const Result<void> done = co_await pass();
        if (done) continue;
        if (tree_.failed()) co_return;  // for good; the set notices there
        requested_ = true;
        co_await wait_after_failure();
    }
}

// A leaf may be readable again a little later. Requests do not shorten the wait: without a pass
// they come many times a second.
Task<void> Collector::wait_after_failure() {
    const Instant due = clock_.now() + kRetry;
    while (!stopping_ && clock_.now() < due) {
        co_await io::TimedWait(clock_, wake_, due - clock_.now());
    }
}

Task<Result<void>> Collector::pass() {
    co_await one_pass_.lock();
    const async::Mutex::Guard guard(one_pass_);
    const Result<void> done = co_await walk();
    running_ = false;
    if (!done) {
        if (!std::exchange(failing_, true) && tell_ && !tree_.failed()) tell_(done.error());
    } else if (!stopping_ && std::exchange(failing_, false) && tell_) {
        tell_(std::nullopt);
    }
    co_return done;
}

Task<Result<void>> Collector::walk() {
    running_ = true;
    const Instant begin = clock_.now();
    index::Tally tally;
    std::vector<Gen> oldest;
    oldest.reserve(table_.size());
    for (BucketIndex b = 0; b < table_.size(); ++b) oldest.push_back(table_.at(b).gen);
    ondisk::Pos cursor{};
    bool more = true;
    while (more && !stopping_) {
        CO_TRY(more, co_await tree_.collect_leaf(cursor, oldest, tally));
        co_await async::Yield();
    }
    running_ = false;
    if (more) co_return Result<void>{};  // stopped in the middle: nothing is known
    CO_OK(co_await tree_.collect_interior(oldest, tally));
    for (BucketIndex b = 0; b < table_.size(); ++b) table_.at(b).last_gc = oldest[b];
    ++passes_;
    tally_ = tally;
    times_.add(begin, clock_.now());
    co_return Result<void>{};
}

}  // namespace uc::gc
