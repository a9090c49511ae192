// Reads.
//
// Look up; read what the cache has from there and the rest from the backing device, all at once,
// straight into the caller's buffer. After a read from the cache the bucket's generation is
// compared again: a reused bucket means that the data may be foreign, and the read starts over.
// Dirty data pins its bucket, but may be written back and evicted while a slow read is under way,
// so it is compared, too.
//
// A failed cache read of clean data is answered from the backing device and the extent dropped; of
// dirty data it is an error (I35): the backing device has older data, which never stand in its
// place.

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/cached_volume.h"

namespace uc::core {

using ondisk::Key;

namespace {

constexpr std::uint64_t kMaxFillSectors = 4096;
constexpr int kMaxRaces = 16;

Reason reason_of(policy::BypassReason reason) {
    switch (reason) {
        case policy::BypassReason::none:
            return Reason::cached;
        case policy::BypassReason::mode:
            return Reason::mode;
        case policy::BypassReason::sequential:
            return Reason::sequential;
        case policy::BypassReason::congested:
            return Reason::congested;
        case policy::BypassReason::unaligned:
            return Reason::unaligned;
        case policy::BypassReason::full:
            return Reason::full;
        case policy::BypassReason::detaching:
            return Reason::detaching;
        case policy::BypassReason::discard:
            return Reason::discard;
    }
    return Reason::cached;
}

}  // namespace

policy::BypassFacts CachedVolume::facts(std::uint64_t from, std::uint64_t to) const {
    policy::BypassFacts facts;
    facts.mode = cache_mode();
    facts.detaching = detaching_;
    facts.in_use_percent = services_.table.in_use_percent();
    facts.start = from;
    facts.sectors = to - from;
    facts.block_sectors = services_.table.geometry().block_sectors;
    facts.sequential_cutoff_bytes = options_.sequential_cutoff_bytes;
    return facts;
}

Reason CachedVolume::decide(policy::BypassFacts& facts) {
    const bool congestion_counts = services_.options.congested_read_threshold_us != 0 ||
                                   services_.options.congested_write_threshold_us != 0;
    policy::BypassReason reason = policy::bypass_by_rule(facts);
    if (reason != policy::BypassReason::none) return reason_of(reason);
    if (congestion_counts && services_.congestion.level() != 0) {
        facts.congestion_limit_sectors = services_.congestion.limit_sectors(
            services_.clock.now(), static_cast<std::uint32_t>(services_.rng.next()));
    }
    if (policy::needs_run_length(facts)) {
        facts.run_sectors = runs_.observe(facts.start, facts.sectors, services_.clock.now());
        reason = policy::bypass_by_run(facts);
    }
    return reason_of(reason);
}

Reason CachedVolume::decide_read(std::uint64_t from, std::uint64_t to) {
    policy::BypassFacts request = facts(from, to);
    const Reason reason = decide(request);
    if (reason == Reason::cached) {
        services_.table.account_request(to - from);
    } else {
        stats_.bypassed_sectors += to - from;
    }
    return reason;
}

void CachedVolume::sample(Instant start, std::uint32_t threshold_us, LatencyHistogram& latencies) {
    const Instant now = services_.clock.now();
    latencies.add(now - start);
    services_.congestion.sample(now - start, threshold_us, now);
}

// Widened where the device only reads whole blocks.
Task<Result<void>> CachedVolume::read_from_cache(std::uint64_t sector, std::uint64_t sectors,
                                                 std::byte* out) {
    const std::uint32_t logical = services_.cache.logical_block_sectors();
    if (sector % logical == 0 && sectors % logical == 0) {
        const std::span<std::byte> into(out, sectors * kSectorBytes);
        co_return co_await services_.cache.read(sector, into);
    }
    const std::uint64_t from = sector / logical * logical;
    const std::uint64_t to = div_ceil<std::uint64_t>(sector + sectors, logical) * logical;
    io::Buffer whole((to - from) * kSectorBytes);
    CO_OK(co_await services_.cache.read(from, whole.span()));
    std::memcpy(out, whole.data() + (sector - from) * kSectorBytes, sectors * kSectorBytes);
    co_return Result<void>{};
}

// One extent from the cache.
Task<Result<void>> CachedVolume::read_hit(Key extent, std::byte* out, bool& raced) {
    alloc::BucketTable& table = services_.table;
    table.touch(table.bucket_of(extent.ptr()));
    const std::uint32_t threshold = services_.options.congested_read_threshold_us;
    const Instant start = services_.clock.now();
    const std::uint64_t sector = extent.ptr().sector();
    const Result<void> read = co_await read_from_cache(sector, extent.size(), out);
    sample(start, threshold, stats_.cache_read);
    raced = table.stale(extent.ptr()) &&
            !services_.options.mutations.has(Mutation::read_without_gen_check);
    stats_.cache_read_races += raced;
    co_return read;
}

std::vector<CachedVolume::ReadPart> CachedVolume::parts_of(const index::Pieces& pieces,
                                                           std::uint64_t from,
                                                           std::uint64_t to) const {
    std::vector<ReadPart> parts;
    const auto add = [&parts](std::uint64_t begin, std::uint64_t end, std::optional<Key> extent) {
        ReadPart part;
        part.from = begin;
        part.to = end;
        part.extent = extent;
        parts.push_back(part);
    };
    std::uint64_t at = from;
    for (const Key& piece : pieces) {
        if (piece.start() > at) add(at, piece.start(), std::nullopt);
        add(piece.start(), piece.end(), piece);
        at = piece.end();
    }
    if (at < to) add(at, to, std::nullopt);
    return parts;
}

Task<void> CachedVolume::read_part(ReadPart& part, std::byte* out) {
    const Result<void> read = co_await read_one(part, out);
    part.result = read;
}

Task<Result<void>> CachedVolume::read_one(ReadPart& part, std::byte* out) {
    if (part.extent) co_return co_await read_hit(*part.extent, out, part.raced);
    const std::span<std::byte> into(out, (part.to - part.from) * kSectorBytes);
    if (backing_) {
        const Stopwatch watch(services_.clock, stats_.backing_read);
        co_return co_await backing_->device().read(part.from, into);
    }
    std::ranges::fill(into, std::byte{0});
    co_return Result<void>{};
}

// What failed on the cache, from the backing device if it has the same data.
Task<Result<void>> CachedVolume::recover_part(ReadPart& part, std::byte* out) {
    ++stats_.io_errors;
    if (!part.extent) co_return part.result;
    ++services_.counters.cache_io_errors;
    const bool old_data = services_.options.mutations.has(Mutation::old_data_for_dirty);
    if ((part.extent->dirty() && !old_data) || !backing_) {
        co_return fail(Errc::data_lost, "dirty data in the cache cannot be read",
                       part.result.error().sys);
    }
    const std::span<std::byte> into(out, (part.to - part.from) * kSectorBytes);
    std::optional<Stopwatch> watch(std::in_place, services_.clock, stats_.backing_read);
    const Result<void> read = co_await backing_->device().read(part.from, into);
    watch.reset();
    CO_OK(read);
    if (read_only()) co_return read;
    const Result<void> dropped = co_await drop_extent(*part.extent);
    if (!dropped) ++stats_.io_errors;  // the read was answered all the same
    co_return read;
}

// Removes an extent whose data cannot be read, where it is still there and clean.
Task<Result<void>> CachedVolume::drop_extent(Key extent) {
    index::Tree& tree = services_.tree;
    // The request may have been for a part of a block; keys are whole blocks.
    const std::uint32_t block = services_.table.geometry().block_sectors;
    const std::uint64_t from = extent.start() / block * block;
    const std::uint64_t before = extent.start() - from;
    extent.set_end(div_ceil<std::uint64_t>(extent.end(), block) * block);
    extent.set_size(static_cast<std::uint32_t>(extent.end() - from));
    extent.set_ptr(ondisk::Ptr(extent.ptr().raw() - (before << 8)));
    while (!tree.prepared(identity_.inode, from, extent.end())) {
        CO_OK(co_await tree.prepare(identity_.inode, from, extent.end()));
    }
    index::Pieces now;
    CHECK(tree.try_lookup(identity_.inode, from, extent.end(), now));
    std::vector<Key> records;
    for (const Key& key : now) {
        if (key.dirty() || key.ptr() != extent.ptr().advanced(key.start() - from)) continue;
        records.push_back(Key::invalidation(identity_.inode, key.end(), key.size()));
    }
    if (!records.empty()) removal_seq_ = tree.commit(records);
    co_return Result<void>{};
}

// False: some bucket was reused meanwhile, look up again.
Task<Result<bool>> CachedVolume::read_parts(std::vector<ReadPart>& parts, std::uint64_t from,
                                            std::byte* out) {
    async::TaskGroup group(services_.executor);
    for (std::size_t i = 1; i < parts.size(); ++i) {
        group.spawn(read_part(parts[i], out + (parts[i].from - from) * kSectorBytes));
    }
    co_await read_part(parts.front(), out);
    co_await group.drained();
    for (const ReadPart& part : parts) {
        if (part.raced) co_return false;
    }
    for (ReadPart& part : parts) {
        if (part.result) continue;
        CO_OK(co_await recover_part(part, out + (part.from - from) * kSectorBytes));
    }
    co_return true;
}

// Must come before the backing device is read: a write that starts later cancels the fill, one that
// is in flight forbids it.
std::unique_ptr<Fill> CachedVolume::begin_fill(const std::vector<ReadPart>& parts, Reason& reason) {
    // Detached meanwhile: no fill may begin that cut_off() did not cancel.
    if (reason != Reason::cached || !fills_ || !attached_ ||
        cache_mode() == ondisk::CacheMode::none) {
        return nullptr;
    }
    std::vector<Fill::Piece> missed;
    for (const ReadPart& part : parts) {
        if (!part.extent) missed.push_back({part.from, part.to});
    }
    if (missed.empty()) return nullptr;
    const std::uint64_t from = missed.front().from;
    const std::uint64_t to = missed.back().to;
    if (to - from > kMaxFillSectors) return nullptr;
    if (!services_.allocator.can_take_data()) {
        --stats_.read_reasons[static_cast<std::size_t>(Reason::cached)];
        reason = Reason::no_bucket;
        ++stats_.read_reasons[static_cast<std::size_t>(reason)];
        return nullptr;
    }
    const bool anyway = services_.options.mutations.has(Mutation::fill_during_write);
    if (writes_.overlaps(from, to) && !anyway) return nullptr;
    std::unique_ptr<Fill> fill = fills_->begin(from, to);
    if (fill) fill->pieces = std::move(missed);
    return fill;
}

void CachedVolume::finish_fill(std::unique_ptr<Fill> fill, std::uint64_t from,
                               const std::byte* out) {
    std::memcpy(fill->data.data(), out + (fill->from - from) * kSectorBytes, fill->data.size());
    fills_->finish(std::move(fill));
}

void CachedVolume::count_read(const std::vector<ReadPart>& parts, Reason reason) {
    const bool miss = std::ranges::any_of(parts, [](const ReadPart& part) { return !part.extent; });
    if (reason == Reason::cached) {
        ++(miss ? stats_.cache_misses : stats_.cache_hits);
    } else {
        ++(miss ? stats_.cache_bypass_misses : stats_.cache_bypass_hits);
    }
}

Task<Result<void>> CachedVolume::read_cached(std::uint64_t from, std::uint64_t to, std::byte* out,
                                             Reason reason) {
    index::Pieces pieces;
    for (int race = 0; race < kMaxRaces; ++race) {
        if (!attached_) {  // detached meanwhile: what the index has is not kept up any more
            const std::span<std::byte> into(out, (to - from) * kSectorBytes);
            const Stopwatch watch(services_.clock, stats_.backing_read);
            co_return co_await backing_->device().read(from, into);
        }
        while (!services_.tree.try_lookup(identity_.inode, from, to, pieces)) {
            CO_OK(co_await services_.tree.fetch(identity_.inode, from, to));
        }
        if (pieces.size() == 1 && pieces.front().size() == to - from) {
            bool raced = false;
            const Result<void> read = co_await read_hit(pieces.front(), out, raced);
            if (raced) continue;
            if (read) {
                ++(reason == Reason::cached ? stats_.cache_hits : stats_.cache_bypass_hits);
                co_return read;
            }
        }
        std::vector<ReadPart> parts = parts_of(pieces, from, to);
        std::unique_ptr<Fill> fill = begin_fill(parts, reason);
        const Result<bool> done = co_await read_parts(parts, from, out);
        if (fill && done && *done) {
            finish_fill(std::move(fill), from, out);
        } else if (fill) {
            fills_->abandon(std::move(fill));
        }
        CO_OK(done);
        if (!*done) continue;
        count_read(parts, reason);
        co_return Result<void>{};
    }
    co_return fail(Errc::io, "buckets are reused faster than they can be read");
}

Task<Result<void>> CachedVolume::read(std::uint64_t sector, std::span<std::byte> out) {
    const std::uint64_t sectors = out.size() / kSectorBytes;
    CO_OK(check_request(sector, sectors, false));
    if (sectors == 0) co_return Result<void>{};
    const InFlight counted(*this);
    ++stats_.reads;
    stats_.read_sectors += sectors;
    const std::uint64_t from = sector + offset();
    if (!attached_) {
        ++stats_.read_reasons[static_cast<std::size_t>(Reason::no_set)];
        stats_.bypassed_sectors += sectors;
        const Stopwatch watch(services_.clock, stats_.backing_read);
        co_return co_await backing_->device().read(from, out);
    }
    services_.foreground();
    Reason reason = Reason::cached;
    if (backing_) reason = decide_read(from, from + sectors);
    ++stats_.read_reasons[static_cast<std::size_t>(reason)];
    const Result<void> done = co_await read_cached(from, from + sectors, out.data(), reason);
    if (done || done.error().code != Errc::gone || !backing_) co_return done;
    CO_OK(co_await leave_failed_set());
    const Stopwatch watch(services_.clock, stats_.backing_read);
    co_return co_await backing_->device().read(from, out);
}

}  // namespace uc::core
