// Requests that are not multiples of the cache's block are widened where the cache has something of
// their edge blocks; else they go to the backing device as they are.

#include <algorithm>
#include <cstring>

#include "core/cached_volume.h"

namespace uc::core {

// Not a multiple of the block. If the cache has nothing of the blocks it touches, the backing
// device gets the request as it is.
Task<Result<void>> CachedVolume::write_unaligned(WriteOp op) {
    const std::uint32_t block = services_.table.geometry().block_sectors;
    const std::uint64_t hull_from = op.from / block * block;
    const std::uint64_t hull_to = div_ceil<std::uint64_t>(op.to, block) * block;
    async::RangeLock::Hold hold(writes_, hull_from, hull_to);
    co_await hold.acquire();
    if (!attached_) {  // detached while we waited
        count_past_set(op);
        co_return co_await issue_to_backing(op, op.flags.fua);
    }
    if (fills_) fills_->cancel(hull_from, hull_to);
    CO_TRY(const index::Overlap found, co_await overlap(hull_from, hull_to));
    if (backing_ && !found.dirty && !found.clean) {
        ++stats_.write_reasons[static_cast<std::size_t>(Reason::unaligned)];
        stats_.bypassed_sectors += op.sectors();
        async::RangeLock::Hold backing_hold(backing_writes_, hull_from, hull_to);
        co_await backing_hold.acquire();
        if (services_.journal.durable_seq() < removal_seq_) {
            CO_OK(co_await services_.journal.flush(removal_seq_));
        }
        co_return co_await issue_to_backing(op, op.flags.fua);
    }
    io::Buffer whole((hull_to - hull_from) * kSectorBytes);
    CO_OK(co_await read_cached(hull_from, hull_to, whole.data(), Reason::unaligned));
    std::byte* const place = whole.data() + (op.from - hull_from) * kSectorBytes;
    if (op.data != nullptr) {
        std::memcpy(place, op.data, op.sectors() * kSectorBytes);
    } else {
        std::memset(place, 0, op.sectors() * kSectorBytes);
    }
    op.from = hull_from;
    op.to = hull_to;
    op.data = whole.data();
    op.discard = false;
    co_return co_await modify_locked(op);
}

// Cuts an unaligned request into edges and middle. The last partial block of a volume whose size is
// not a multiple of the block can never be cached, so it goes to the backing device alone.
Task<Result<void>> CachedVolume::write_around_edges(WriteOp op) {
    const std::uint32_t block = services_.table.geometry().block_sectors;
    const std::uint64_t end = (size_ + offset()) / block * block;
    if (backing_ && op.to > end) {
        WriteOp tail = op;
        tail.from = std::max(op.from, end);
        if (tail.data != nullptr) tail.data += (tail.from - op.from) * kSectorBytes;
        CO_OK(co_await write_direct(tail));
        op.to = tail.from;
        if (op.from >= op.to) co_return Result<void>{};
    }
    if (aligned(op.from, op.to)) co_return co_await modify(op);
    if (op.data != nullptr) co_return co_await write_unaligned(op);
    // Zeroes and discards: the middle as a whole, zeroes at the edges by hand.
    const std::uint64_t first = div_ceil<std::uint64_t>(op.from, block) * block;
    const std::uint64_t last = op.to / block * block;
    // A flash-only volume promises zeroes after a discard, to the sector.
    const bool leave_edges = op.discard && backing_;
    if (first >= last) {
        if (leave_edges) co_return Result<void>{};
        co_return co_await write_unaligned(op);
    }
    WriteOp middle = op;
    middle.from = first;
    middle.to = last;
    CO_OK(co_await modify(middle));
    if (leave_edges) co_return Result<void>{};
    WriteOp edge = op;
    edge.to = first;
    if (edge.from < edge.to) {
        CO_OK(co_await write_unaligned(edge));
    }
    edge.from = last;
    edge.to = op.to;
    if (edge.from < edge.to) {
        CO_OK(co_await write_unaligned(edge));
    }
    co_return Result<void>{};
}

// Past the cache altogether.
Task<Result<void>> CachedVolume::write_direct(WriteOp op) {
    async::RangeLock::Hold hold(writes_, op.from, op.to);
    co_await hold.acquire();
    if (op.discard && !backing_->device().supports_discard()) co_return Result<void>{};
    co_return co_await issue_to_backing(op, op.flags.fua);
}

void CachedVolume::count_past_set(const WriteOp& op) {
    ++stats_.write_reasons[static_cast<std::size_t>(Reason::no_set)];
    if (!op.discard) stats_.bypassed_sectors += op.sectors();
}

// Of a volume without a set. False: it was attached while we waited, and nothing was written.
Task<Result<bool>> CachedVolume::write_past_set(WriteOp op) {
    async::RangeLock::Hold hold(writes_, op.from, op.to);
    co_await hold.acquire();
    if (attached_) co_return false;
    count_past_set(op);
    if (op.discard && !backing_->device().supports_discard()) co_return true;
    CO_OK(co_await issue_to_backing(op, op.flags.fua));
    co_return true;
}

}  // namespace uc::core
