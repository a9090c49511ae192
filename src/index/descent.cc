// Finding leaves, and loading the ones that are not in memory.
//
// A descent never waits: it either reaches the leaf or finds the place where a child is missing.
// Whoever needs the child awaits fetch_leaf() and starts again at the root, because everything may
// have changed.

#include <algorithm>

#include "index/tree.h"
#include "io/timed_wait.h"

namespace uc::index {

using ondisk::Key;
using ondisk::Pos;

namespace {
constexpr std::uint64_t kMemorySlack = 256 << 10;
constexpr int kMemoryWaits = 50;
constexpr Duration kMemoryWait = std::chrono::milliseconds(20);
}  // namespace

// The leaf for a range that starts at `pos`: the first one whose position is greater (5.4). Null if
// it or an interior node is not in memory; then `parent` and `missing` say where.
Node* Tree::leaf_for(Pos pos, Node*& parent, Child*& missing) {
    Node* node = root_;
    while (!node->is_leaf()) {
        const auto it = node->children.upper_bound(pos);
        CHECK(it != node->children.end());
        if (it->second.node == nullptr) {
            parent = node;
            missing = &it->second;
            return nullptr;
        }
        node = it->second.node;
    }
    node->referenced = true;
    return node;
}

// The node one level above `level` that has the child with this position; null if not in memory.
Node* Tree::parent_of(Pos pos, unsigned level) {
    Node* node = root_;
    while (node != nullptr && node->level > level + 1) {
        const auto it = node->children.lower_bound(pos);
        if (it == node->children.end()) return nullptr;
        node = it->second.node;
    }
    return node != nullptr && node->level == level + 1 ? node : nullptr;
}

bool Tree::in_memory(std::uint64_t inode, std::uint64_t from, std::uint64_t to, Pos& missing_at) {
    while (from < to) {
        Node* parent = nullptr;
        Child* missing = nullptr;
        missing_at = Pos{inode, from};
        const Node* const leaf = leaf_for(missing_at, parent, missing);
        if (leaf == nullptr) return false;
        if (leaf->pos().inode != inode) return true;
        from = leaf->pos().offset;
    }
    return true;
}

bool Tree::try_lookup(std::uint64_t inode, std::uint64_t from, std::uint64_t to, Pieces& out) {
    out.clear();
    while (from < to) {
        Node* parent = nullptr;
        Child* missing = nullptr;
        const Node* const leaf = leaf_for(Pos{inode, from}, parent, missing);
        if (leaf == nullptr) return false;
        for (auto it = leaf->extents.first_after(inode, from);
             it != leaf->extents.end() && it->inode() == inode && it->start() < to; ++it) {
            if (parts_.table.stale(it->ptr())) continue;
            out.push_back(it->part(std::max(from, it->start()), std::min(to, it->end())));
        }
        if (leaf->pos().inode != inode) return true;
        from = leaf->pos().offset;
    }
    return true;
}

bool Tree::try_overlap(std::uint64_t inode, std::uint64_t from, std::uint64_t to, Overlap& out) {
    out = Overlap{};
    while (from < to) {
        Node* parent = nullptr;
        Child* missing = nullptr;
        const Node* const leaf = leaf_for(Pos{inode, from}, parent, missing);
        if (leaf == nullptr) return false;
        for (auto it = leaf->extents.first_after(inode, from);
             it != leaf->extents.end() && it->inode() == inode && it->start() < to; ++it) {
            if (parts_.table.durably_stale(it->ptr())) continue;
            const bool dirty = it->dirty() && !parts_.table.stale(it->ptr());
            out.dirty |= dirty;
            out.clean |= !dirty;
        }
        if (leaf->pos().inode != inode) return true;
        from = leaf->pos().offset;
    }
    return true;
}

// Leaves cannot be dropped before they are written. Whoever would have one more loaded waits for
// the flusher, before the first, since others might be dropped meanwhile; not for ever, since the
// flusher may itself wait for something that the caller holds.
Task<void> Tree::wait_for_memory() {
    const std::uint64_t most = parts_.memory_limit + parts_.memory_limit / 4 + kMemorySlack;
    for (int i = 0; i < kMemoryWaits; ++i) {
        if (memory_ <= most || pinned_.empty() || failed_ || group_ == nullptr) break;
        kick_.notify();
        co_await io::TimedWait(parts_.clock, progress_, kMemoryWait);
    }
}

Task<Result<void>> Tree::fetch(std::uint64_t inode, std::uint64_t from, std::uint64_t to) {
    Pos missing;
    if (!in_memory(inode, from, to, missing)) {
        co_await wait_for_memory();
    }
    while (!in_memory(inode, from, to, missing)) {
        CO_OK(co_await fetch_leaf(missing));
    }
    co_return Result<void>{};
}

// Loads the topmost missing node on the way to `pos`. Returns also when somebody else did.
Task<Result<void>> Tree::fetch_leaf(Pos pos) {
    if (failed_) co_return fail(Errc::gone, "the cache set has failed");
    Node* parent = nullptr;
    Child* missing = nullptr;
    if (leaf_for(pos, parent, missing) != nullptr) co_return Result<void>{};
    const Key key = missing->key;
    const unsigned level = parent->level - 1;
    const std::uint64_t bucket = parts_.table.bucket_of(key.ptr());
    if (loading_.contains(bucket)) {
        co_await loaded_.wait();
        co_return Result<void>{};
    }
    loading_[bucket] = 1;
    auto fresh = std::make_unique<Node>();
    std::string problem;
    const Instant begin = parts_.clock.now();
    const Result<void> read = co_await read_node(key, level, *fresh, problem);
    stats_.reads.add(begin, parts_.clock.now());
    loading_.erase(bucket);
    loaded_.notify();
    // The tree may have changed: the node counts only if its key still stands in the parent.
    Node* const now = parent_of(key.pos(), level);
    if (now == nullptr) co_return Result<void>{};
    const auto it = now->children.find(key.pos());
    if (it == now->children.end() || it->second.key != key || it->second.node != nullptr) {
        co_return Result<void>{};
    }
    if (!read) co_return tl::unexpected(read.error());
    it->second.node = &adopt(std::move(fresh));
    it->second.node->referenced = true;  // whoever waits for it must find it
    shrink();
    co_return Result<void>{};
}

// So large that writers should wait for the split.
bool Tree::oversized(const Node& leaf) const {
    return leaf.extents.size() > 4 * keys_per_node_;
}

bool Tree::prepared(std::uint64_t inode, std::uint64_t from, std::uint64_t to) {
    if (failed_ || !parts_.journal.has_room()) return false;
    while (from < to) {
        Node* parent = nullptr;
        Child* missing = nullptr;
        const Node* const leaf = leaf_for(Pos{inode, from}, parent, missing);
        if (leaf == nullptr || oversized(*leaf)) return false;
        if (leaf->pos().inode != inode) return true;
        from = leaf->pos().offset;
    }
    return true;
}

Task<Result<void>> Tree::prepare(std::uint64_t inode, std::uint64_t from, std::uint64_t to) {
    while (!prepared(inode, from, to)) {
        if (failed_) co_return fail(Errc::gone, "the cache set has failed");
        if (!parts_.journal.has_room()) {
            CO_OK(co_await parts_.journal.wait_room());
            continue;
        }
        Pos missing;
        if (!in_memory(inode, from, to, missing)) {
            CO_OK(co_await fetch_leaf(missing));
            continue;
        }
        kick_.notify();  // a leaf is too large: commit() has queued it for the flusher
        co_await progress_.wait();
    }
    co_return Result<void>{};
}

}  // namespace uc::index
