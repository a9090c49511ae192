// Leaves to disk, in the background.
//
// Few unwritten keys are appended as sets of one atomic unit each, one after the other (a later set
// must not be durable before an earlier one: a reader would find a gap). Many, or no room left: the
// leaf is written anew elsewhere, split if it has grown.
//
// A leaf write must not name data that a power cut could lose (weakness 11.2). The data were
// written before the key was committed, so a flush of the device is enough; waiting for the journal
// entry instead could dead-lock, because a full ring waits for leaf writes.

#include <algorithm>
#include <utility>

#include "index/tree.h"
#include "io/buffer.h"
#include "io/timed_wait.h"

namespace uc::index {

using ondisk::Key;

namespace {
constexpr Duration kMaxLeafAge = std::chrono::seconds(30);
constexpr std::uint32_t kMaxAppends = 4;  // per write of a leaf; more is a rewrite
constexpr std::uint32_t kMaxBackgroundWrites = 4;
}  // namespace

std::size_t Tree::keys_per_append() const {
    const std::uint32_t sectors =
        std::clamp<std::uint32_t>(parts_.cache.atomic_sectors(), 1, geometry_.block_sectors);
    return (sectors * kSectorBytes - sizeof(ondisk::BsetHeader)) / ondisk::kKeyMaxBytes;
}

Task<Result<void>> Tree::flush_data(JournalSeq newest) {
    if (parts_.journal.durable_seq() >= newest) co_return Result<void>{};
    if (parts_.mutations.has(Mutation::leaf_without_data_flush)) co_return Result<void>{};
    co_return co_await parts_.journal.flush_device();
}

// Appends one set at the node's next block and waits until it is durable.
Task<Result<void>> Tree::append_set(Node& node, std::span<const Key> keys) {
    const std::size_t bytes = ondisk::bset_bytes(keys);
    const std::uint32_t blocks = geometry_.blocks(bytes);
    io::Buffer buffer(std::size_t{blocks} * geometry_.block_bytes());
    ondisk::encode_bset(keys, node.seq, parts_.set_magic, node.key.ptr().raw(), buffer.span());
    const std::uint64_t sector =
        node.key.ptr().sector() + std::uint64_t{node.next_block} * geometry_.block_sectors;
    const bool fua = !parts_.mutations.has(Mutation::append_without_fua);
    CO_OK(co_await parts_.cache.write(sector, buffer.span(), fua));
    node.next_block += blocks;
    ++stats_.node_writes;
    ++stats_.appends;
    stats_.written_sectors += buffer.size() / kSectorBytes;
    co_return Result<void>{};
}

Task<Result<void>> Tree::write_leaf(Node& leaf) {
    const NodeUse use(leaf);
    co_await leaf.writing.lock();
    const async::Mutex::Guard guard(leaf.writing);
    leaf.queued = false;
    if (failed_) co_return fail(Errc::gone, "the cache set has failed");
    const bool too_large = leaf.extents.size() > keys_per_node_;
    if (leaf.unwritten.empty() && !leaf.must_rewrite && !too_large) co_return Result<void>{};
    const Result<void> written = co_await write_changes(leaf, too_large);
    if (!written && written.error().code != Errc::stopped) fail_set();
    progress_.notify();
    co_return written;
}

Task<Result<void>> Tree::write_changes(Node& leaf, bool too_large) {
    const std::size_t appends = div_ceil(leaf.unwritten.size(), keys_per_append());
    const std::uint32_t blocks = leaf.key.size() / geometry_.block_sectors;
    const bool append = !leaf.must_rewrite && !too_large && appends <= kMaxAppends &&
                        leaf.next_block + appends <= blocks;
    if (append) co_return co_await append_leaf(leaf);
    co_return co_await rewrite_leaf(leaf);
}

Task<Result<void>> Tree::append_leaf(Node& leaf) {
    const std::vector<Key> keys(leaf.unwritten.begin(), leaf.unwritten.end());
    const JournalSeq newest = leaf.newest;
    leaf.unwritten.clear();
    reaccount(leaf);
    JournalSeq pin = take_pin(leaf);
    if (pin != 0 && parts_.mutations.has(Mutation::pin_dropped_before_leaf)) {
        parts_.journal.unpin(std::exchange(pin, 0));
    }
    CO_OK(co_await flush_data(newest));
    const std::span<const Key> all(keys);
    for (std::size_t i = 0; i < all.size(); i += keys_per_append()) {
        const auto part = all.subspan(i, std::min(keys_per_append(), all.size() - i));
        CO_OK(co_await append_set(leaf, part));
        if (parts_.mutations.has(Mutation::append_only_first_set)) break;
    }
    if (pin != 0) parts_.journal.unpin(pin);
    co_return Result<void>{};
}

Task<Result<void>> Tree::rewrite_leaf(Node& leaf) {
    co_await structure_.lock();
    const async::Mutex::Guard guard(structure_);
    // Stale keys go, but only where no crash can make them valid again: their journal entries may
    // still be replayed over the new node.
    const auto gone = [this](const Key& key) { return parts_.table.durably_stale(key.ptr()); };
    leaf.extents.erase_if(gone);
    const std::vector<Key> keys(leaf.extents.begin(), leaf.extents.end());
    const JournalSeq newest = leaf.newest;
    leaf.unwritten.clear();
    Change change;
    change.pins.push_back(take_pin(leaf));
    CO_OK(co_await flush_data(newest));
    const Instant begin = parts_.clock.now();
    change.steps.emplace_back();
    change.steps.back().olds.push_back(&leaf);
    CO_OK(co_await write_nodes(0, keys, leaf.pos(), change.steps.back().fresh));
    CO_OK(co_await install(change));
    const bool split = change.steps.front().fresh.size() > 1;
    apply(change);
    leaf.must_rewrite = false;
    ++stats_.rewrites;
    if (split) stats_.split_times.add(begin, parts_.clock.now());
    co_return Result<void>{};
}

Task<Result<void>> Tree::write_all() {
    // Ids, because nodes split and join meanwhile; new leaves that come from a split are found in
    // the next round.
    bool again = true;
    while (again) {
        std::vector<std::uint64_t> ids;
        for (const auto& [id, node] : nodes_) {
            if (node->is_leaf() && (!node->unwritten.empty() || node->must_rewrite)) {
                ids.push_back(id);
            }
        }
        again = !ids.empty();
        for (const std::uint64_t id : ids) {
            const auto it = nodes_.find(id);
            if (it == nodes_.end()) continue;
            CO_OK(co_await write_leaf(*it->second));
        }
    }
    co_return Result<void>{};
}

void Tree::want_written(JournalSeq seq) {
    if (seq <= wanted_seq_) return;
    wanted_seq_ = seq;
    kick_.notify();
}

Node* Tree::next_to_write() {
    while (!urgent_.empty()) {
        const auto it = nodes_.find(urgent_.back());
        urgent_.pop_back();
        if (it != nodes_.end() && it->second->queued) return it->second.get();
    }
    for (const auto& [key, node] : pinned_) {
        const bool due = key.first <= wanted_seq_ || memory_ > parts_.memory_limit ||
                         parts_.clock.now() - node->dirty_since >= kMaxLeafAge;
        if (!due) return nullptr;
        if (!node->queued) {
            node->queued = true;
            return node;
        }
    }
    return nullptr;
}

Task<void> Tree::write_in_background(Node& leaf) {
    // An error has failed the set already; whoever needs the leaf learns it from there.
    const Result<void> written = co_await write_leaf(leaf);
    if (!written) fail_set();
    --writes_in_background_;
    --leaf.users;
    // It can be dropped now; with a second chance it would have unwritten keys again by then.
    if (memory_ > parts_.memory_limit) leaf.referenced = false;
    shrink();
    kick_.notify();
}

Task<void> Tree::flusher() {
    while (!stopping_ && !failed_) {
        Node* leaf = nullptr;
        if (writes_in_background_ < kMaxBackgroundWrites) leaf = next_to_write();
        if (leaf != nullptr) {
            ++writes_in_background_;
            ++leaf->users;
            group_->spawn(write_in_background(*leaf));
        } else if (pinned_.empty() || writes_in_background_ == kMaxBackgroundWrites) {
            co_await kick_.wait();
        } else {
            co_await io::TimedWait(parts_.clock, kick_, std::chrono::seconds(1));
        }
    }
    progress_.notify();
}

void Tree::run(async::TaskGroup& group) {
    group_ = &group;
    for (const auto& [id, node] : nodes_) {
        if (!node->must_rewrite) continue;
        node->queued = true;
        urgent_.push_back(id);
    }
    group.spawn(flusher());
}

void Tree::stop() {
    stopping_ = true;
    kick_.notify();
    progress_.notify();
}

// Without the index nothing of the set can go on.
void Tree::fail_set() {
    failed_ = true;
    parts_.journal.give_up();
    kick_.notify();
    progress_.notify();
}

}  // namespace uc::index
