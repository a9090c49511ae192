// The index's share of garbage collection: one leaf per call, so that no request waits for more
// than that.
//
// `oldest` must not be newer than any pointer that disk or journal may still hold. So a leaf's
// pointers are counted before it is written: what is on disk afterwards is a part of what was
// counted, or newer.

#include <algorithm>

#include "index/tree.h"

namespace uc::index {

using ondisk::Pos;
using ondisk::Ptr;

namespace {

constexpr unsigned kRewriteStaleness = 10;  // format section 6.2

void lower(std::vector<Gen>& oldest, std::uint64_t bucket, Gen gen) {
    if (oldest[bucket].newer_than(gen) != 0) oldest[bucket] = gen;
}

}  // namespace

Task<Result<bool>> Tree::collect_leaf(Pos& cursor, std::vector<Gen>& oldest, Tally& tally) {
    Node* parent = nullptr;
    Child* missing = nullptr;
    Node* leaf = leaf_for(cursor, parent, missing);
    while (leaf == nullptr) {
        CO_OK(co_await fetch_leaf(cursor));
        leaf = leaf_for(cursor, parent, missing);
    }
    const NodeUse use(*leaf);
    unsigned worst = 0;
    std::size_t stale = 0;
    for (const ondisk::Key& key : leaf->extents) {
        const unsigned staleness = parts_.table.staleness(key.ptr());
        worst = std::max(worst, staleness);
        stale += staleness != 0;
        tally.sectors += staleness == 0 ? key.size() : 0;
    }
    ++tally.nodes;
    tally.extents += leaf->extents.size() - stale;
    tally.key_bytes += (leaf->extents.size() - stale) * ondisk::kKeyMaxBytes;
    const bool rewrite = worst > kRewriteStaleness || stale * 2 > leaf->extents.size();
    for (const ondisk::Key& key : leaf->extents) {
        if (rewrite && parts_.table.durably_stale(key.ptr())) continue;
        lower(oldest, parts_.table.bucket_of(key.ptr()), key.ptr().gen());
    }
    leaf->must_rewrite |= rewrite;
    if (rewrite || !leaf->unwritten.empty()) {
        CO_OK(co_await write_leaf(*leaf));
    }
    const bool last = leaf->pos() == ondisk::kPosMax;
    cursor = leaf->pos();
    if (!last) {
        CO_OK(co_await merge_with_next(*leaf));
    }
    co_return !last;
}

// Joins the leaf with the next one under the same parent, if both are small.
Task<Result<void>> Tree::merge_with_next(Node& leaf) {
    if (leaf.extents.size() > keys_per_node_ / 4) co_return Result<void>{};
    co_await structure_.lock();
    const async::Mutex::Guard guard(structure_);
    Node* const parent = parent_of(leaf.pos(), 0);
    if (parent == nullptr) co_return Result<void>{};
    auto it = parent->children.find(leaf.pos());
    if (it == parent->children.end() || it->second.node != &leaf) co_return Result<void>{};
    ++it;
    if (it == parent->children.end() || it->second.node == nullptr) co_return Result<void>{};
    Node& next = *it->second.node;
    const NodeUse use(next);
    const std::size_t together = leaf.extents.size() + next.extents.size();
    if (together > keys_per_node_ / 2 || leaf.must_rewrite || next.must_rewrite) {
        co_return Result<void>{};
    }
    const Result<void> merged = co_await merge(leaf, next);
    if (!merged) fail_set();
    co_return merged;
}

Task<Result<void>> Tree::collect_interior(std::vector<Gen>& oldest, Tally& tally) {
    std::vector<std::uint64_t> ids;
    for (const auto& [id, node] : nodes_) {
        if (!node->is_leaf()) ids.push_back(id);
    }
    for (const std::uint64_t id : ids) {
        co_await structure_.lock();
        const async::Mutex::Guard guard(structure_);
        const auto it = nodes_.find(id);
        if (it == nodes_.end()) continue;
        Node& node = *it->second;
        ++tally.nodes;
        tally.key_bytes += node.children.size() * ondisk::kKeyMaxBytes;
        unsigned worst = 0;
        for (const Ptr ptr : node.dead) worst = std::max(worst, parts_.table.staleness(ptr));
        if (worst > kRewriteStaleness || node.dead.size() > 2 * node.children.size()) {
            const Result<void> rewritten = co_await rewrite_interior(node);
            if (!rewritten) fail_set();
            CO_OK(rewritten);
        }
    }
    for (const auto& [id, node] : nodes_) {
        for (const Ptr ptr : node->dead) lower(oldest, parts_.table.bucket_of(ptr), ptr.gen());
        for (const auto& [pos, child] : node->children) {
            lower(oldest, parts_.table.bucket_of(child.key.ptr()), child.key.ptr().gen());
        }
    }
    lower(oldest, parts_.table.bucket_of(root_->key.ptr()), root_->key.ptr().gen());
    co_return Result<void>{};
}

}  // namespace uc::index
