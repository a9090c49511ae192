// What a volume asks of the index and changes in it: which kind of data lies in a range, keys in,
// records in.
//
// flush_seq_ and removal_seq_ are set in the step that changes the index: whoever sees the change
// there also knows which journal entry it must wait for.

#include <algorithm>

#include "core/cached_volume.h"

namespace uc::core {

using ondisk::Key;

namespace {
constexpr std::uint32_t kMaxRecord = 32768;  // sectors of one record (format section 2.7)
constexpr std::size_t kKeysPerCommit = 512;
}  // namespace

Task<Result<index::Overlap>> CachedVolume::overlap(std::uint64_t from, std::uint64_t to) {
    index::Overlap found;
    while (!services_.tree.try_overlap(identity_.inode, from, to, found)) {
        CO_OK(co_await services_.tree.fetch(identity_.inode, from, to));
    }
    co_return found;
}

// Commits keys that lie in [from, to). More than one round only for very many keys.
Task<Result<JournalSeq>> CachedVolume::commit(std::uint64_t from, std::uint64_t to,
                                              std::span<const Key> all) {
    JournalSeq seq = 0;
    for (std::size_t i = 0; i < all.size(); i += kKeysPerCommit) {
        while (!services_.tree.prepared(identity_.inode, from, to)) {
            CO_OK(co_await services_.tree.prepare(identity_.inode, from, to));
        }
        const auto part = all.subspan(i, std::min(kKeysPerCommit, all.size() - i));
        seq = services_.tree.commit(part);
        // In the same step: who sees the keys in the index must also see that they are not durable
        // yet.
        flush_seq_ = std::max(flush_seq_, seq);
        const auto record = [](const Key& key) { return !key.has_ptr(); };
        if (std::ranges::any_of(part, record)) removal_seq_ = std::max(removal_seq_, seq);
    }
    co_return seq;
}

void CachedVolume::note_unflushed(std::uint64_t from, std::uint64_t to) {
    const JournalSeq seq = flush_seq_;
    const JournalSeq durable = services_.journal.durable_seq();
    if (seq <= durable) return;
    while (!unflushed_.empty() && unflushed_.front().seq <= durable) unflushed_.pop_front();
    if (!unflushed_.empty()) {
        Unflushed& last = unflushed_.back();
        if (last.seq == seq && last.range.from <= from && from <= last.range.to) {
            last.range.to = std::max(last.range.to, to);
            return;
        }
    }
    unflushed_.push_back({seq, {from, to}});
}

RangeSet CachedVolume::unflushed() const {
    RangeSet ranges;
    for (const Unflushed& each : unflushed_) {
        if (each.seq > services_.journal.durable_seq()) ranges.add(each.range.from, each.range.to);
    }
    return ranges;
}

// Records "not cached" for the range, or for what in it is not dirty.
Task<Result<JournalSeq>> CachedVolume::invalidate(std::uint64_t from, std::uint64_t to,
                                                  bool keep_dirty) {
    index::Pieces pieces;
    while (!services_.tree.prepared(identity_.inode, from, to)) {
        CO_OK(co_await services_.tree.prepare(identity_.inode, from, to));
    }
    CHECK(services_.tree.try_lookup(identity_.inode, from, to, pieces));
    std::vector<Key> records;
    const auto add = [&](std::uint64_t begin, std::uint64_t end) {
        while (begin < end) {
            const std::uint64_t size = std::min<std::uint64_t>(end - begin, kMaxRecord);
            begin += size;
            records.push_back(
                Key::invalidation(identity_.inode, begin, static_cast<std::uint32_t>(size)));
        }
    };
    std::uint64_t at = from;
    for (const Key& piece : pieces) {
        if (!keep_dirty || !piece.dirty()) continue;
        add(at, piece.start());
        at = piece.end();
    }
    add(at, to);
    co_return co_await commit(from, to, records);
}

}  // namespace uc::core
