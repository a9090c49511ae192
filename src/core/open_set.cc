#include "core/open_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/buffer.h"

namespace uc::core {

using ondisk::Key;

const char* name_of(Reason reason) {
    switch (reason) {
        case Reason::cached:
            return "cached";
        case Reason::mode:
            return "mode";
        case Reason::sequential:
            return "sequential";
        case Reason::congested:
            return "congested";
        case Reason::unaligned:
            return "unaligned";
        case Reason::full:
            return "full";
        case Reason::detaching:
            return "detaching";
        case Reason::discard:
            return "discard";
        case Reason::no_bucket:
            return "no_bucket";
        case Reason::no_set:
            return "no_set";
        case Reason::count_:
            break;
    }
    return "?";
}

// Volumes first, then the index, then what the index needs. At the end one journal entry says that
// nothing needs to be replayed (13.5).
Task<Result<void>> OpenSet::stop() {
    if (stopped_) co_return Result<void>{};
    stopped_ = true;
    for (const auto& volume : volumes_) volume->stop();
    for (const auto& volume : volumes_) {
        co_await volume->quiesce();
    }
    co_await volume_tasks_.drained();
    if (options_.read_only) co_return Result<void>{};
    const Result<void> written = co_await write_last();
    co_await end_tasks();
    co_return written;
}

Task<Result<void>> OpenSet::write_last() {
    CO_OK(co_await tree_.write_all());
    co_return co_await journal_.flush(journal_.open_seq());
}

Task<void> OpenSet::end_tasks() {
    collector_.stop();
    tree_.stop();
    reclaimer_->stop();
    allocator_.shut_down();
    journal_.stop();
    co_await set_tasks_.drained();
}

Task<Result<void>> OpenSet::collect_garbage() {
    if (options_.read_only) co_return fail(Errc::read_only, "the set is open for reading only");
    co_return co_await collector_.pass();
}

Task<Result<void>> OpenSet::set_replacement(ondisk::Replacement policy) {
    if (options_.read_only) co_return fail(Errc::read_only, "the set is open for reading only");
    superblock_.set_replacement(policy);
    co_return co_await save_superblock();
}

SetStats OpenSet::stats() const {
    SetStats stats = counters_;
    const journal::JournalStats& journal = journal_.stats();
    stats.journal_writes = journal.writes;
    stats.journal_keys = journal.keys;
    stats.journal_reclaims = journal.reclaims;
    stats.active_journal_entries = journal_.open_seq() - journal_.oldest_pinned();
    const index::TreeStats& tree = tree_.stats();
    stats.node_writes = tree.node_writes;
    stats.node_reads = tree.node_reads;
    stats.node_splits = tree.splits;
    stats.node_merges = tree.merges;
    stats.btree_written_sectors = tree.written_sectors;
    stats.node_read_times = tree.reads;
    stats.split_times = tree.split_times;
    stats.gc_passes = collector_.passes();
    stats.gc_times = collector_.times();
    const index::Tally& tally = collector_.tally();
    stats.gc_nodes = tally.nodes;
    stats.gc_key_bytes = tally.key_bytes;
    stats.gc_extents = tally.extents;
    stats.gc_extent_sectors = tally.sectors;
    // The spread of the decision is left out: half of the bits set is the middle of it.
    if (congestion_.level() != 0) {
        stats.congested_sectors = congestion_.limit_sectors(env_.clock.now(), 0xffff);
    }
    if (reclaimer_) {
        stats.prio_writes = reclaimer_->table_writes();
        stats.buckets_invalidated = reclaimer_->invalidated();
        stats.metadata_written_sectors += reclaimer_->table_sectors();
    }
    stats.metadata_written_sectors += journal.written_sectors;
    return stats;
}

std::uint64_t OpenSet::root_usage_percent() const {
    const index::Node& root = tree_.root();
    const std::uint64_t keys = root.is_leaf() ? root.extents.size() : root.children.size();
    return keys * ondisk::kKeyMaxBytes * 100 / (geometry_.node_sectors() * kSectorBytes);
}

CacheSet::BucketCounts OpenSet::bucket_counts() const {
    BucketCounts counts;
    for (BucketIndex b = 0; b < table_.size(); ++b) {
        const alloc::Bucket& bucket = table_.at(b);
        if (bucket.use == alloc::Use::none) {
            ++counts.unused;
        } else if (bucket.use != alloc::Use::data) {
            ++counts.metadata;
        } else {
            ++(bucket.dirty != 0 ? counts.dirty : bucket.live != 0 ? counts.clean : counts.unused);
        }
    }
    return counts;
}

Task<void> OpenSet::probe() {
    io::Buffer bytes(ondisk::kSuperblockBytes);
    const Result<void> read = co_await cache_.read(ondisk::kSuperblockSector, bytes.span());
    if (read && ondisk::parse_superblock(bytes.span()).uuid == superblock_.uuid) co_return;
    if (journal_.failed()) co_return;
    failure_ = "the cache device does not answer";
    journal_.give_up();
}

const std::string& OpenSet::failure() const {
    if (!failure_.empty()) return failure_;
    if (journal_.failed()) {
        failure_ = "a journal write failed";
    } else if (tree_.failed()) {
        failure_ = "a b-tree node could not be written";
    } else if (reclaimer_ && reclaimer_->failed()) {
        failure_ = "the priority table could not be written";
    }
    return failure_;
}

std::string OpenSet::describe() const {
    std::string text = fmt::format(
        "journal open {} durable {} oldest pinned {} room {}; free {} of {} wanted {}; {}",
        journal_.open_seq(), journal_.durable_seq(), journal_.oldest_pinned(), journal_.has_room(),
        allocator_.free_buckets(), table_.size(), allocator_.wanted(), tree_.describe());
    for (const auto& volume : volumes_) {
        text += fmt::format("; {}: {} requests, {} dirty, state {}", volume->name(),
                            volume->requests_in_flight(), volume->dirty_sectors(),
                            ondisk::name_of(volume->state()));
    }
    return text;
}

// Counts everything anew from the index.
Task<Result<void>> OpenSet::walk_accounts(std::vector<alloc::Bucket>& walked) {
    walked.assign(table_.size(), alloc::Bucket{});
    ondisk::Pos cursor{};
    bool more = true;
    while (more) {
        const auto count = [&](const Key& key) {
            if (table_.stale(key.ptr())) return;
            alloc::Bucket& bucket = walked[table_.bucket_of(key.ptr())];
            bucket.live += key.size();
            if (key.dirty()) bucket.dirty += key.size();
        };
        CO_TRY(const index::Tree::Visit visited, co_await tree_.visit(cursor, count));
        more = visited.more;
    }
    co_return Result<void>{};
}

void OpenSet::check_accounts(std::vector<std::string>& broken,
                             const std::vector<alloc::Bucket>& walked) {
    for (BucketIndex b = 0; b < table_.size(); ++b) {
        const alloc::Bucket& bucket = table_.at(b);
        if (bucket.live != walked[b].live || bucket.dirty != walked[b].dirty) {
            broken.push_back(fmt::format("bucket {}: accounted {} live, {} dirty; found {} and {}",
                                         b, bucket.live, bucket.dirty, walked[b].live,
                                         walked[b].dirty));
        }
        if (bucket.live != 0 && bucket.use != alloc::Use::data) {
            broken.push_back(fmt::format("bucket {} holds data, but is not marked as data", b));
        }
        if (bucket.listed && bucket.live != 0) {
            broken.push_back(fmt::format("bucket {} is free and holds data", b));
        }
    }
}

Task<std::vector<std::string>> OpenSet::check_invariants() {
    std::vector<std::string> broken;
    tree_.check_invariants(broken);
    std::vector<alloc::Bucket> walked;
    // The first walk loads every leaf, and none is evicted meanwhile; so the second one never waits
    // and sees one state.
    const std::uint64_t limit = std::exchange(options_.node_cache_bytes, ~std::uint64_t{0});
    const Result<void> loaded = co_await walk_accounts(walked);
    const Result<void> done = co_await walk_accounts(walked);
    options_.node_cache_bytes = limit;
    if (!loaded || !done) {
        const Error error = loaded ? done.error() : loaded.error();
        broken.push_back(fmt::format("the index cannot be walked: {}", error.what));
    } else {
        check_accounts(broken, walked);
    }
    co_return broken;
}

}  // namespace uc::core
