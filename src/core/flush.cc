// Flush, and the state that the backing superblock records.
//
//   first dirty write   superblock "dirty", durable  ->  data, key, answer (I3)
//   nothing dirty left  backing flushed, cleared dirty bits durable in the journal  ->  superblock
//   "clean" (I4)
//
// A flush (I30) waits for the entry with the volume's last key that matters (dirty data, records)
// and, if anything went to the backing device since its last flush, for that device; both at once.

#include <algorithm>

#include "core/cached_volume.h"
#include "io/timed_wait.h"

namespace uc::core {

using ondisk::BackingState;

// Every dirty key and record of this volume so far.
Task<Result<void>> CachedVolume::flush_keys() {
    if (services_.journal.durable_seq() >= flush_seq_) co_return Result<void>{};
    co_return co_await services_.journal.flush(flush_seq_);
}

Task<Result<void>> CachedVolume::flush_journal() {
    if (services_.options.mutations.has(Mutation::flush_before_journal)) co_return Result<void>{};
    co_return co_await flush_keys();
}

Task<Result<void>> CachedVolume::flush_backing() {
    const Result<void> flushed = co_await backing_->flush();
    if (flushed) {
        fills_->flushed();
    } else {
        fills_->flush_failed();
    }
    co_return flushed;
}

namespace {
Task<void> flush_aside(Task<Result<void>> flush, Result<void>& out) {
    const Result<void> flushed = co_await std::move(flush);
    out = flushed;
}
}  // namespace

Task<Result<void>> CachedVolume::flush() {
    CO_OK(check_request(0, 0, false));
    const InFlight counted(*this);
    ++stats_.flushes;
    if (read_only()) co_return Result<void>{};
    if (!backing_) co_return co_await flush_journal();
    const std::uint64_t losses_before = backing_->losses();
    Result<void> journal;
    async::TaskGroup group(services_.executor);
    const bool journal_lags = attached_ && services_.journal.durable_seq() < flush_seq_;
    if (journal_lags) group.spawn(flush_aside(flush_journal(), journal));
    const Result<void> backing = co_await flush_backing();
    co_await group.drained();
    if (!journal && journal.error().code == Errc::gone) {
        CO_OK(co_await leave_failed_set());
    } else {
        CO_OK(journal);
    }
    // A failed flush counts for everybody who waited for it, and for the next one who asks if it
    // ran in the background. One that covered nothing but write-back is no user's concern: the data
    // are still dirty.
    const std::uint64_t losses = backing_->losses();
    const bool lost = losses != losses_before || losses != told_losses_;
    told_losses_ = losses;
    if (lost && !services_.options.mutations.has(Mutation::flush_error_forgotten)) {
        const char* const why = "an earlier flush of the backing device failed";
        co_return fail(Errc::data_lost, backing ? why : backing.error().what,
                       backing ? 0 : backing.error().sys);
    }
    co_return Result<void>{};
}

Task<Result<void>> CachedVolume::leave_failed_set() {
    co_await leaving_.lock();
    const async::Mutex::Guard guard(leaving_);
    if (!attached_) co_return Result<void>{};
    // Nothing can become dirty any more: without a journal no key is committed.
    if (read_only() || dirty_sectors() != 0) {
        co_return fail(Errc::gone, "the cache set has failed and holds dirty data of this volume");
    }
    co_return co_await go_alone();
}

Task<Result<void>> CachedVolume::abandon_set() {
    co_await leaving_.lock();
    const async::Mutex::Guard guard(leaving_);
    if (!attached_) co_return Result<void>{};
    co_return co_await go_alone();
}

Task<Result<void>> CachedVolume::go_alone() {
    CO_OK(co_await backing_->become_stale());
    fills_->cancel(0, ~std::uint64_t{0});
    attached_ = false;
    co_return Result<void>{};
}

Task<Result<void>> CachedVolume::ensure_dirty_state() {
    if (!backing_ || backing_->state() == BackingState::dirty) co_return Result<void>{};
    if (services_.options.mutations.has(Mutation::skip_dirty_state)) co_return Result<void>{};
    co_return co_await backing_->become_dirty();
}

Task<void> CachedVolume::become_clean() {
    if (dirty_sectors() != 0 || dirty_writers_ != 0) co_return;
    if (backing_->state() != BackingState::dirty) co_return;
    // Every cleared bit is in the open entry at the latest.
    const Result<void> flushed = co_await flush_backing();
    if (!flushed) co_return;
    const bool early = services_.options.mutations.has(Mutation::clean_state_early);
    const JournalSeq last = early ? 0 : services_.journal.open_seq();
    const Result<void> logged = co_await services_.journal.flush(last);
    if (!logged || !attached_ || dirty_sectors() != 0 || dirty_writers_ != 0) co_return;
    // From here on the state in memory is clean, and a dirty write waits until the superblock is
    // written.
    const Result<void> changed = co_await backing_->become_clean();
    if (!changed) ++stats_.io_errors;
}

void CachedVolume::update_rate() {
    policy::RateInputs in;
    in.dirty = dirty_sectors();
    in.backing_sectors = backing_->device().size_sectors();
    in.all_backing_sectors = services_.all_backing_sectors();
    in.flash_only_dirty = services_.flash_only_dirty();
    in.buckets = services_.table.size();
    in.available_buckets = services_.table.size() - services_.table.in_use_buckets();
    in.bucket_sectors = services_.table.geometry().bucket_sectors;
    in.in_use_percent = services_.table.in_use_percent();
    in.collecting = services_.collector.running();
    in.writeback_percent = options_.writeback_percent;
    in.update_s = options_.writeback_rate_update_s;
    in.p_term_inverse = options_.writeback_rate_p_term_inverse;
    in.i_term_inverse = options_.writeback_rate_i_term_inverse;
    in.minimum = options_.writeback_rate_minimum_sectors;
    in.consider_fragment = options_.writeback_consider_fragment;
    in.fragment_low = options_.writeback_rate_fp_term_low;
    in.fragment_mid = options_.writeback_rate_fp_term_mid;
    in.fragment_high = options_.writeback_rate_fp_term_high;
    // As if somebody had used the set since the last round.
    if (!services_.options.idle_max_writeback_rate) rate_.foreground_io();
    rate_.update(in, services_.clock.now());
    options_.writeback_rate_sectors = shown_rate_ = rate_.rate();
}

// Once per update interval: the rate of write-back and the way back to clean.
Task<void> CachedVolume::housekeeping() {
    while (!stopping_) {
        const Duration interval =
            std::chrono::seconds(std::max<std::uint32_t>(1, options_.writeback_rate_update_s));
        co_await io::TimedWait(services_.clock, tick_, interval);
        if (stopping_ || !attached_) continue;
        update_rate();
        co_await become_clean();
    }
}

}  // namespace uc::core
