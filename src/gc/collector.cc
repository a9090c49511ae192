#include "gc/collector.h"

#include <algorithm>
#include <vector>

namespace uc::gc {

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
        if (!done) co_return;  // the tree has failed; the set notices there
    }
}

Task<Result<void>> Collector::pass() {
    co_await one_pass_.lock();
    const async::Mutex::Guard guard(one_pass_);
    running_ = true;
    const Instant begin = clock_.now();
    index::Tally tally;
    std::vector<Gen> oldest;
    oldest.reserve(table_.size());
    for (BucketIndex b = 0; b < table_.size(); ++b) oldest.push_back(table_.at(b).gen);
    ondisk::Pos cursor{};
    bool more = true;
    while (more && !stopping_) {
        const Result<bool> next = co_await tree_.collect_leaf(cursor, oldest, tally);
        if (!next) {
            running_ = false;
            co_return tl::unexpected(next.error());
        }
        more = *next;
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
