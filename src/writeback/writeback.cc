#include "writeback/writeback.h"

#include <algorithm>
#include <utility>

#include "io/buffer.h"
#include "io/timed_wait.h"

namespace uc::writeback {

using ondisk::Key;

namespace {
constexpr std::uint64_t kRunSectors = 2048;     // one write to backing
constexpr std::uint64_t kBatchSectors = 32768;  // between two flushes, at most
constexpr std::size_t kBatchExtents = 512;
constexpr std::uint64_t kInFlight = 32;
constexpr Duration kRetry = std::chrono::seconds(5);
constexpr Duration kBeginning = std::chrono::seconds(1);

}  // namespace

Writeback::Writeback(Parts parts) : parts_(std::move(parts)) {}

void Writeback::run(async::TaskGroup& group) {
    group.spawn(loop());
}

void Writeback::stop() {
    stopping_ = true;
    wake_.notify();
}

Task<void> Writeback::loop() {
    // Whoever attached the volume sets its knobs first.
    co_await io::TimedWait(parts_.clock, wake_, kBeginning);
    while (!stopping_) {
        const Knobs knobs = parts_.knobs();
        if (!dirty() || !knobs.running || hurried()) {
            co_await wake_.wait();
            continue;
        }
        wrapped_ = false;
        const std::uint64_t rate = parts_.rate.rate();
        // What two seconds may take: enough to be worth a flush, little enough to keep to the rate.
        const std::uint64_t most =
            knobs.paced ? std::clamp<std::uint64_t>(rate * 2, 1, kBatchSectors) : kBatchSectors;
        const Result<std::uint64_t> done = co_await batch(most);
        if (stopping_) break;  // told while nobody waited
        if (!done || *done == 0) {
            parts_.failed();
            co_await io::TimedWait(parts_.clock, wake_, kRetry);
            continue;
        }
        if (parts_.knobs().paced && !hurried()) {
            co_await pace(*done);
            if (stopping_) break;
        }
        // A whole round is done: let dirty data gather and merge.
        if (wrapped_ && parts_.knobs().paced && !hurried() && dirty() && !parts_.rate.unlimited()) {
            co_await io::TimedWait(parts_.clock, wake_, std::chrono::seconds(knobs.delay_s));
        }
    }
}

Task<void> Writeback::pace(std::uint64_t sectors) {
    parts_.rate.submitted(sectors, parts_.clock.now());
    const Instant next = parts_.rate.next();
    if (next > parts_.clock.now() && !stopping_) {
        co_await io::TimedWait(parts_.clock, wake_, next - parts_.clock.now());
    }
}

Task<Result<void>> Writeback::drain() {
    ++draining_;
    Result<void> result;
    std::uint64_t fruitless = 0;
    while (dirty() && result && fruitless < 2 && !stopping_) {
        const std::uint64_t before = parts_.table.dirty_sectors(parts_.inode);
        const Result<std::uint64_t> done = co_await batch(kBatchSectors);
        if (!done) result = tl::unexpected(done.error());
        // Users' writes to the backing device take dirty data away as well.
        const bool less = parts_.table.dirty_sectors(parts_.inode) < before;
        fruitless = less || (done && *done != 0) ? 0 : fruitless + 1;
    }
    --draining_;
    wake_.notify();
    if (result && dirty() && stopping_) result = fail(Errc::stopped, "the set is stopping");
    if (result && dirty()) {
        const Error unknown{Errc::io, 0, "some dirty data could not be written back"};
        result = tl::unexpected(trouble_ ? trouble_->error : unknown);
    }
    co_return result;
}

// Collects dirty extents from the cursor on, at most once round.
Task<Result<void>> Writeback::choose(std::uint64_t max_sectors, std::vector<Run>& runs) {
    std::uint64_t sectors = 0;
    std::size_t extents = 0;
    const auto take = [&](const Key& key) {
        if (key.inode() != parts_.inode || !key.dirty() || parts_.table.stale(key.ptr())) return;
        if (sectors >= max_sectors || extents >= kBatchExtents) return;
        if (runs.empty() || runs.back().to != key.start() ||
            runs.back().to - runs.back().from + key.size() > kRunSectors) {
            runs.emplace_back();
            runs.back().from = key.start();
        }
        runs.back().to = key.end();
        runs.back().extents.push_back(key);
        sectors += key.size();
        ++extents;
        cursor_ = key.end();
    };
    for (int round = 0; round < 2; ++round) {
        ondisk::Pos at{parts_.inode, cursor_};
        bool more = true;
        while (more && at.inode == parts_.inode && sectors < max_sectors &&
               extents < kBatchExtents) {
            CO_TRY(const index::Tree::Visit visited, co_await parts_.tree.visit(at, take));
            more = visited.more;
        }
        if (!runs.empty()) break;
        round_ended();
        wrapped_ = true;
        cursor_ = 0;
    }
    co_return Result<void>{};
}

// Returns the sectors written back; 0: nothing could be.
Task<Result<std::uint64_t>> Writeback::batch(std::uint64_t max_sectors) {
    co_await one_batch_.lock();
    const async::Mutex::Guard guard(one_batch_);
    spoiled_.clear();
    const std::uint64_t failures = parts_.flush_failures();
    std::vector<Run> runs;
    CO_OK(co_await choose(max_sectors, runs));
    async::Semaphore slots(kInFlight);
    async::TaskGroup group(parts_.executor);
    for (Run& run : runs) {
        co_await slots.acquire();
        group.spawn(write_run(run, slots));
    }
    co_await group.drained();
    std::uint64_t sectors = 0;
    for (const Run& run : runs) {
        if (run.written) sectors += run.to - run.from;
        if (!run.trouble) continue;
        counters_.keys_failed += run.extents.size();
        refuse(*run.trouble);
    }
    if (sectors == 0) co_return std::uint64_t{0};
    if (!parts_.mutations.has(Mutation::clear_dirty_before_flush)) {
        CO_OK(co_await flush_batch(failures));
    }
    CO_OK(co_await mark_clean(runs));
    counters_.sectors += sectors;
    if (!dirty()) round_ended();
    co_return sectors;
}

Task<Result<void>> Writeback::flush_batch(std::uint64_t failures) {
    Result<void> flushed = co_await parts_.flush_backing();
    // A device that fails one flush may drop what it held and let the next one succeed.
    if (flushed && parts_.flush_failures() != failures) {
        flushed = fail(Errc::io, "a flush of the backing device failed meanwhile");
    }
    if (!flushed) refuse({flushed.error(), false});
    co_return flushed;
}

void Writeback::refuse(const Trouble& trouble) {
    if (trouble.error.code == Errc::stopped) return;
    failed_in_round_ = true;
    parts_.refused(trouble);
    const bool known = trouble_ && trouble_->of_cache == trouble.of_cache &&
                       trouble_->error.sys == trouble.error.sys;
    if (known) return;
    trouble_ = trouble;
    parts_.trouble_changed();
}

// A place that cannot be written must not look healed because its neighbours can be.
void Writeback::round_ended() {
    if (std::exchange(failed_in_round_, false) && dirty()) return;
    if (std::exchange(trouble_, std::nullopt)) parts_.trouble_changed();
}

Task<void> Writeback::write_run(Run& run, async::Semaphore& slots) {
    async::RangeLock::Hold hold(parts_.backing_writes, run.from, run.to);
    if (!parts_.mutations.has(Mutation::writeback_without_lock)) {
        co_await hold.acquire();
    }
    const Result<void> copied = co_await copy_run(run);
    // The backing device's errors are known already; the others come from the cache.
    if (!copied && !run.trouble) run.trouble = {copied.error(), true};
    slots.release();
}

Task<Result<void>> Writeback::copy_run(Run& run) {
    // While we waited for the range some of it may have been overwritten or discarded. Take what is
    // still there; the rest comes in a later batch.
    const Key first = run.extents.front();
    index::Pieces now;
    while (!parts_.tree.try_lookup(parts_.inode, run.from, run.to, now)) {
        CO_OK(co_await parts_.tree.fetch(parts_.inode, run.from, run.to));
    }
    std::uint64_t end = run.from;
    std::vector<Key> extents;
    for (const Key& key : now) {
        if (key.start() != end || !key.dirty()) break;
        extents.push_back(key);
        end = key.end();
    }
    run.extents = std::move(extents);
    run.to = end;
    if (run.extents.empty()) co_return Result<void>{};
    CHECK(run.from == first.start());
    io::Buffer buffer((run.to - run.from) * kSectorBytes);
    for (const Key& key : run.extents) parts_.allocator.pin(key.ptr());
    const Result<void> copied = co_await copy_extents(run, buffer.span());
    for (const Key& key : run.extents) parts_.allocator.unpin(key.ptr());
    co_return copied;
}

Task<Result<void>> Writeback::copy_extents(Run& run, std::span<std::byte> data) {
    // I8: the backing device must not get ahead of the keys. If a crash took them, an older clean
    // extent of the same range would be back, and differ from what the backing device then has.
    if (!parts_.mutations.has(Mutation::writeback_before_key)) {
        CO_OK(co_await parts_.flush_keys());
    }
    for (const Key& key : run.extents) {
        const auto part =
            data.subspan((key.start() - run.from) * kSectorBytes, key.size() * kSectorBytes);
        CO_OK(co_await parts_.cache.read(key.ptr().sector(), part));
    }
    const Result<void> written = co_await parts_.backing.write(run.from, data);
    if (!written) run.trouble = {written.error(), false};
    CO_OK(written);
    parts_.wrote_backing(run.from, run.to);
    run.written = true;
    co_return Result<void>{};
}

bool Writeback::spoiled(const Key& key) const {
    return std::ranges::any_of(spoiled_, [&key](const auto& range) {
        return range.first < key.end() && key.start() < range.second;
    });
}

// Clears DIRTY where the same data is still there. What it was written to is flushed (I9).
Task<Result<void>> Writeback::mark_clean(const std::vector<Run>& runs) {
    std::vector<Key> clean;
    index::Pieces now;
    for (const Run& run : runs) {
        if (!run.written) continue;
        while (!parts_.tree.prepared(parts_.inode, run.from, run.to)) {
            CO_OK(co_await parts_.tree.prepare(parts_.inode, run.from, run.to));
        }
        CHECK(parts_.tree.try_lookup(parts_.inode, run.from, run.to, now));
        clean.clear();
        for (const Key& old : run.extents) {
            for (const Key& key : now) {
                if (key.end() <= old.start() || key.start() >= old.end() || !key.dirty()) continue;
                const std::uint64_t from = std::max(key.start(), old.start());
                Key part = key.part(from, std::min(key.end(), old.end()));
                const bool same = part.ptr() == old.ptr().advanced(from - old.start());
                if (!same && !parts_.mutations.has(Mutation::writeback_clears_newer)) continue;
                // A user's write is on its way to the same place: what we wrote is not there any
                // more.
                if (parts_.backing_writes.overlaps(part.start(), part.end())) continue;
                if (spoiled(part)) continue;
                part.set_dirty(false);
                clean.push_back(part);
            }
        }
        if (!clean.empty()) parts_.tree.commit(clean);
        counters_.keys_done += clean.size();
    }
    co_return Result<void>{};
}

}  // namespace uc::writeback
