// Writes, discards and zeroes.
//
// All of them hold their range against each other (writes_), so overlapping ones take effect in one
// order everywhere. Those that touch the backing device also hold it against write-back
// (backing_writes_).
//
//   dirty         data to the cache -> key (DIRTY) to journal and index -> answer
//                 first of all the backing superblock says "dirty", durably (I3, 11.4)
//   to backing    over a clean extent:  record "not cached" durable -> write backing (I5, 11.5)
//                 over a dirty extent:  its key durable (I8) -> write, flush backing -> record (I6)
//                 Nothing there:        write backing
//                 In writethrough the data are then offered to the cache like a fill (I7, fill.h).
//
// Why the orders: before the backing device changes under a clean extent, no crash may bring that
// extent back; a dirty extent is the truth until the backing device has, durably, what is to
// replace it.

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/cached_volume.h"
#include "policy/writeback_decision.h"

namespace uc::core {

using ondisk::Key;

namespace {
constexpr Duration kLongestStall = std::chrono::seconds(10);  // without any progress
constexpr Duration kSpaceRetryDelay = std::chrono::milliseconds(100);
}  // namespace

Result<void> CachedVolume::check_request(std::uint64_t sector, std::uint64_t sectors,
                                         bool write) const {
    if (sector > size_ || sectors > size_ - sector) {
        return fail(Errc::invalid, "request beyond the end of the volume");
    }
    if (stopping_) return fail(Errc::stopped, "the volume is stopping");
    if (write && read_only()) return fail(Errc::read_only, "the set is open for reading only");
    return {};
}

bool CachedVolume::aligned(std::uint64_t from, std::uint64_t to) const {
    const std::uint32_t block = services_.table.geometry().block_sectors;
    return from % block == 0 && to % block == 0;
}

bool CachedVolume::wants_writeback(const WriteOp& op, Reason reason,
                                   const index::Overlap& overlap) const {
    if (!backing_) return true;
    if (dirtying_pauses_ != 0) return false;
    policy::WritebackFacts facts;
    facts.mode = cache_mode();
    facts.detaching = detaching_;
    facts.in_use_percent = services_.table.in_use_percent();
    facts.cutoff_writeback = services_.options.cutoff_writeback;
    facts.cutoff_writeback_sync = services_.options.cutoff_writeback_sync;
    facts.synchronous = op.flags.fua;
    facts.priority = op.flags.priority;
    facts.bypass = reason != Reason::cached;
    if (policy::want_writeback(facts)) return true;
    // Over dirty data another dirty extent is cheaper than a flush of the backing device per
    // request.
    return overlap.dirty && !detaching_ &&
           facts.in_use_percent <= services_.options.cutoff_writeback_sync;
}

// A cached device has another place for its data when no bucket can be had; a flash-only volume
// waits for what write-back and garbage collection free, as long as they may.
Task<Result<alloc::Space>> CachedVolume::allocate(alloc::Stream stream, std::uint32_t sectors) {
    std::uint64_t passes = 0;
    std::uint64_t written_back = services_.written_back();
    Instant progress = services_.clock.now();
    std::optional<SpaceWaiter> waiting;
    for (;;) {
        const Result<alloc::Space> space = co_await services_.allocator.allocate(stream, sectors);
        if (space || space.error().code != Errc::no_space || backing_ || stopping_) co_return space;
        const Instant now = services_.clock.now();
        if (written_back != services_.written_back()) {
            written_back = services_.written_back();
            progress = now;
        }
        if (!waiting) {
            waiting.emplace(services_);
            passes = services_.collector.passes();
        }
        // The pass that ran when we began may have missed what became free since.
        const bool collected = services_.collector.passes() >= passes + 2;
        if (collected && services_.cached_dirty() == 0) co_return space;
        if (now - progress >= kLongestStall) co_return space;
        services_.space_wanted();
        services_.collector.request();
        co_await services_.clock.sleep(kSpaceRetryDelay);
    }
}

// Writes the data to new places in the cache.
Task<Result<void>> CachedVolume::write_cache(const WriteOp& op, alloc::Stream stream,
                                             PinnedKeys& keys) {
    std::uint64_t at = op.from;
    const std::uint32_t threshold = services_.options.congested_write_threshold_us;
    while (at < op.to) {
        const std::uint32_t want = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(op.to - at, services_.table.geometry().bucket_sectors));
        CO_TRY(const alloc::Space space, co_await allocate(stream, want));
        keys.keys.push_back(
            Key::extent(identity_.inode, at + space.sectors, space.sectors, space.ptr, true));
        const std::span<const std::byte> part(op.data + (at - op.from) * kSectorBytes,
                                              space.sectors * kSectorBytes);
        const Instant start = services_.clock.now();
        CO_OK(co_await services_.cache.write(space.ptr.sector(), part));
        sample(start, threshold, stats_.cache_write);
        at += space.sectors;
    }
    co_return Result<void>{};
}

Task<Result<void>> CachedVolume::write_dirty(WriteOp op) {
    const DirtyWriter counted(*this);
    const bool late = services_.options.mutations.has(Mutation::dirty_state_late);
    if (!late) {
        CO_OK(co_await ensure_dirty_state());
    }
    PinnedKeys pinned(services_.allocator);
    const alloc::Stream stream = backing_ ? alloc::Stream::dirty : alloc::Stream::flash_only;
    CO_OK(co_await write_cache(op, stream, pinned));
    if (services_.options.mutations.has(Mutation::ack_before_key)) {
        services_.executor.spawn(
            commit_late(op.from, op.to, {pinned.keys.begin(), pinned.keys.end()}));
        co_return Result<void>{};
    }
    CO_TRY(const JournalSeq seq, co_await commit(op.from, op.to, pinned.keys));
    if (late) {
        CO_OK(co_await ensure_dirty_state());
    }
    services_.collector.inserted(op.sectors());
    if (writeback_) writeback_->kick();
    if (op.flags.fua && !services_.options.mutations.has(Mutation::fua_before_journal)) {
        CO_OK(co_await services_.journal.flush(seq));
    }
    co_return Result<void>{};
}

// Only for Mutation::ack_before_key.
Task<void> CachedVolume::commit_late(std::uint64_t from, std::uint64_t to, std::vector<Key> keys) {
    co_await async::Yield();
    const Result<JournalSeq> done = co_await commit(from, to, keys);
    static_cast<void>(done);
}

Task<Result<void>> CachedVolume::send(const WriteOp& op, bool fua) {
    io::BlockDevice& device = backing_->device();
    if (op.discard) co_return co_await device.discard(op.from, op.sectors());
    if (op.data == nullptr) co_return co_await device.write_zeroes(op.from, op.sectors(), fua);
    const std::span<const std::byte> data(op.data, op.sectors() * kSectorBytes);
    const Stopwatch watch(services_.clock, stats_.backing_write);
    co_return co_await device.write(op.from, data, fua);
}

Task<Result<void>> CachedVolume::issue_to_backing(const WriteOp& op, bool fua) {
    const bool passed = fua && !services_.options.mutations.has(Mutation::fua_lost_below);
    const Result<void> done = co_await send(op, passed);
    // Even a failed or durable write may have left something in the device's cache.
    if (!done || !fua) backing_->wrote_for_user(op.from, op.to);
    co_return done;
}

// To the backing device, with the index in step.
Task<Result<void>> CachedVolume::write_backing(WriteOp op, bool cache_it) {
    async::RangeLock::Hold hold(backing_writes_, op.from, op.to);
    co_await hold.acquire();
    CO_TRY(const index::Overlap found, co_await overlap(op.from, op.to));
    const Mutations mutations = services_.options.mutations;
    if (found.dirty && !mutations.has(Mutation::backing_before_dirty_key)) {
        CO_OK(co_await services_.journal.flush(std::max(flush_seq_, removal_seq_)));
    }
    const bool late = mutations.has(Mutation::record_after_backing);
    if (found.clean && !late && !mutations.has(Mutation::record_forgotten)) {
        CO_OK(co_await invalidate(op.from, op.to, true));
    }
    if (services_.journal.durable_seq() < removal_seq_ &&
        !mutations.has(Mutation::record_not_durable)) {
        CO_OK(co_await services_.journal.flush(removal_seq_));
    }
    const bool offer_early = cache_it && mutations.has(Mutation::clean_key_before_backing);
    if (offer_early) keep_for_cache(op);
    if (found.dirty) {
        const Result<void> replaced = co_await replace_dirty(op);
        if (!replaced && writeback_) writeback_->spoil(op.from, op.to);
        CO_OK(replaced);
    } else {
        CO_OK(co_await issue_to_backing(op, op.flags.fua));
    }
    if (found.clean && late) {
        CO_OK(co_await invalidate(op.from, op.to, true));
    }
    if (cache_it && !offer_early) keep_for_cache(op);
    co_return Result<void>{};
}

// Until the last step the dirty extent is the truth, whatever the backing device has.
Task<Result<void>> CachedVolume::replace_dirty(WriteOp op) {
    // A flush that failed for somebody else meanwhile may have dropped what was written: once more,
    // but not for ever on a device that goes on failing.
    std::uint64_t failures = 0;
    unsigned tries = 0;
    do {
        if (++tries > 3) co_return fail(Errc::io, "flushes of the backing device keep failing");
        failures = backing_->flush_failures();
        CO_OK(co_await issue_to_backing(op, false));
        if (services_.options.mutations.has(Mutation::dirty_replaced_before_flush)) break;
        CO_OK(co_await flush_backing());
    } while (backing_->flush_failures() != failures);
    CO_TRY(const JournalSeq seq, co_await invalidate(op.from, op.to, false));
    if (op.flags.fua) {
        CO_OK(co_await services_.journal.flush(seq));
    }
    co_return Result<void>{};
}

// Writethrough: the backing device has the data; offer them to the cache.
void CachedVolume::keep_for_cache(const WriteOp& op) {
    if (!fills_ || !services_.allocator.can_take_data()) return;
    std::unique_ptr<Fill> fill = fills_->begin(op.from, op.to);
    if (!fill) return;
    fill->pieces.push_back({op.from, op.to});
    std::memcpy(fill->data.data(), op.data, op.sectors() * kSectorBytes);
    fills_->finish(std::move(fill));
}

// Discards. What the backing device does not know about is dropped from the cache all the same.
Task<Result<void>> CachedVolume::write_discard(WriteOp op) {
    async::RangeLock::Hold hold(backing_writes_, op.from, op.to);
    co_await hold.acquire();
    CO_TRY(const index::Overlap found, co_await overlap(op.from, op.to));
    if (found.dirty || found.clean) {
        CO_OK(co_await invalidate(op.from, op.to, false));
    }
    if (!backing_->device().supports_discard()) co_return Result<void>{};
    if (services_.journal.durable_seq() < removal_seq_) {
        CO_OK(co_await services_.journal.flush(removal_seq_));
    }
    co_return co_await issue_to_backing(op, false);
}

// Discard and zeroes on a flash-only volume: what is not mapped reads as zeroes.
Task<Result<void>> CachedVolume::write_flash_records(WriteOp op) {
    if (services_.options.mutations.has(Mutation::zeroes_keep_extent)) co_return Result<void>{};
    CO_TRY(const JournalSeq seq, co_await invalidate(op.from, op.to, false));
    if (op.flags.fua) {
        CO_OK(co_await services_.journal.flush(seq));
    }
    co_return Result<void>{};
}

// The caller holds the range, which is a multiple of the block.
Task<Result<void>> CachedVolume::modify_locked(WriteOp op) {
    if (fills_) fills_->cancel(op.from, op.to);
    if (!backing_ && op.data == nullptr) co_return co_await write_flash_records(op);
    Reason reason = Reason::cached;
    if (backing_) {
        policy::BypassFacts request = facts(op.from, op.to);
        request.write = true;
        request.discard = op.discard;
        reason = decide(request);
    }
    ++stats_.write_reasons[static_cast<std::size_t>(reason)];
    if (op.discard) co_return co_await write_discard(op);
    CO_TRY(const index::Overlap found, co_await overlap(op.from, op.to));
    if (op.data != nullptr && wants_writeback(op, reason, found)) {
        services_.table.account_request(op.sectors());
        const Result<void> written = co_await write_dirty(op);
        if (written || !backing_ || written.error().code == Errc::stopped) co_return written;
        // Whatever failed first: the set has failed, and the volume may go on without it.
        if (services_.journal.failed()) co_return fail(Errc::gone, "the cache set has failed");
        // A cache that cannot take the data is no reason for an error while the backing device can
        // (11.25).
        services_.counters.cache_io_errors += written.error().code == Errc::io;
        if (written.error().code == Errc::no_space) {
            --stats_.write_reasons[static_cast<std::size_t>(reason)];
            ++stats_.write_reasons[static_cast<std::size_t>(Reason::no_bucket)];
        }
        co_return co_await write_backing(op, false);
    }
    if (reason == Reason::cached) {
        services_.table.account_request(op.sectors());
    } else {
        stats_.bypassed_sectors += op.sectors();
    }
    const bool cache_it = op.data != nullptr && reason == Reason::cached;
    co_return co_await write_backing(op, cache_it);
}
Task<Result<void>> CachedVolume::modify(WriteOp op) {
    async::RangeLock::Hold hold(writes_, op.from, op.to);
    co_await hold.acquire();
    if (!attached_) {  // detached while we waited
        count_past_set(op);
        if (op.discard && !backing_->device().supports_discard()) co_return Result<void>{};
        co_return co_await issue_to_backing(op, op.flags.fua);
    }
    co_return co_await modify_locked(op);
}

Task<Result<void>> CachedVolume::write(std::uint64_t sector, std::span<const std::byte> in,
                                       WriteFlags flags) {
    WriteOp op;
    op.from = sector + offset();
    op.to = op.from + in.size() / kSectorBytes;
    op.data = in.data();
    op.flags = flags;
    co_return co_await start(op);
}

Task<Result<void>> CachedVolume::discard(std::uint64_t sector, std::uint64_t sectors) {
    WriteOp op;
    op.from = sector + offset();
    op.to = op.from + sectors;
    op.discard = true;
    ++stats_.discards;
    co_return co_await start(op);
}

Task<Result<void>> CachedVolume::write_zeroes(std::uint64_t sector, std::uint64_t sectors,
                                              WriteFlags flags) {
    WriteOp op;
    op.from = sector + offset();
    op.to = op.from + sectors;
    op.flags = flags;
    co_return co_await start(op);
}

Task<Result<void>> CachedVolume::start(WriteOp op) {
    CO_OK(check_request(op.from - offset(), op.sectors(), true));
    if (op.from == op.to) co_return Result<void>{};
    const InFlight counted(*this);
    if (!op.discard) {
        ++stats_.writes;
        stats_.written_sectors += op.sectors();
    }
    if (!attached_) {
        CO_TRY(const bool done, co_await write_past_set(op));
        if (done) co_return Result<void>{};
    }
    services_.foreground();
    const Result<void> done = co_await modify_attached(op);
    if (done && !op.flags.fua) note_unflushed(op.from, op.to);
    if (done || done.error().code != Errc::gone || !backing_) co_return done;
    CO_OK(co_await leave_failed_set());
    co_return co_await write_direct(op);
}

Task<Result<void>> CachedVolume::modify_attached(WriteOp op) {
    if (aligned(op.from, op.to)) co_return co_await modify(op);
    co_return co_await write_around_edges(op);
}

}  // namespace uc::core
