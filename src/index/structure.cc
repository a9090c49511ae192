// Splits, joins, new roots.
//
// A change is planned and written from the leaf upwards while the tree in memory stays as it was;
// readers and writers go on with it. Only when everything is durable, one synchronous apply()
// switches the memory over. One change at a time (structure_).
//
//   new nodes (FUA)  ->  parent: append {record of each old node, keys of the new ones} (FUA)
//                        or, if the parent has no room, a new parent ... up to
//                        the root, whose key is made durable by a journal entry
//                    ->  apply(): generation of the old buckets + 1 (what the record says), free
//
// An appended parent set must be one atomic unit, so it always names old and new together.

#include <algorithm>

#include "index/tree.h"
#include "io/buffer.h"
#include "ondisk/validate.h"

namespace uc::index {

using ondisk::Key;
using ondisk::Pos;
using ondisk::Ptr;

// Writes one new node: a single sorted set.
Task<Result<void>> Tree::write_node(unsigned level, std::span<const Key> keys, Pos pos,
                                    Fresh& out) {
    CO_TRY(const BucketIndex bucket, co_await parts_.allocator.take_metadata(alloc::Use::node));
    const Ptr ptr = Ptr::make(geometry_.bucket_start(bucket), parts_.table.at(bucket).gen);
    out.key = Key::pointer(pos, geometry_.node_sectors(), ptr);
    out.seq = parts_.rng.next() | 1;  // never zero
    const std::uint32_t blocks = geometry_.blocks(ondisk::bset_bytes(keys));
    io::Buffer buffer(std::size_t{blocks} * geometry_.block_bytes());
    ondisk::encode_bset(keys, out.seq, parts_.set_magic, ptr.raw(), buffer.span());
    const bool fua = !parts_.mutations.has(Mutation::node_without_fua);
    CO_OK(co_await parts_.cache.write(ptr.sector(), buffer.span(), fua));
    out.next_block = blocks;
    ++stats_.node_writes;
    stats_.written_sectors += buffer.size() / kSectorBytes;
    DCHECK(level > 0 || std::ranges::all_of(keys, [this](const Key& key) {
               return ondisk::validate_extent_key(key, geometry_).has_value();
           }));
    co_return Result<void>{};
}

Task<Result<Key>> Tree::create() {
    Fresh fresh;
    const std::span<const Key> none;
    CO_OK(co_await write_node(0, none, ondisk::kPosMax, fresh));
    auto root = std::make_unique<Node>();
    root->key = fresh.key;
    root->seq = fresh.seq;
    root->next_block = fresh.next_block;
    root_ = &adopt(std::move(root));
    accounting_ = true;
    co_return fresh.key;
}

// Writes `keys` as one node, or as several of 3/5 fill if one would be more than 3/4 full. Each
// node's position is that of its last key, the last one's is `last`.
Task<Result<void>> Tree::write_nodes(unsigned level, const std::vector<Key>& keys, Pos last,
                                     std::vector<Fresh>& out) {
    const std::size_t n = keys.size();
    std::size_t count = 1;
    if (n > keys_per_node_ * 3 / 4)
        count = div_ceil(n, std::max<std::size_t>(1, keys_per_node_ * 3 / 5));
    if (count > 1) ++stats_.splits;
    const std::span<const Key> all(keys);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t from = n * i / count;
        const std::size_t to = n * (i + 1) / count;
        const Pos pos = i + 1 == count ? last : keys[to - 1].pos();
        out.emplace_back();
        CO_OK(co_await write_node(level, all.subspan(from, to - from), pos, out.back()));
    }
    co_return Result<void>{};
}

// Makes the last step of the change durable in the parent. True: done. False: the parent itself had
// to be written anew and `above` must be installed.
Task<Result<bool>> Tree::install_in_parent(Node& parent, const Replacement& step,
                                           Replacement& above) {
    const std::size_t appended = step.olds.size() + step.fresh.size();
    const std::uint32_t blocks = parent.key.size() / geometry_.block_sectors;
    if (appended <= keys_per_append() && parent.next_block < blocks) {
        std::vector<Key> keys;
        for (const Node* old : step.olds) {
            if (parts_.mutations.has(Mutation::forget_freed_record)) break;
            const Ptr ptr = old->key.ptr();
            keys.push_back(Key::pointer(ondisk::kPosZero, old->key.size(),
                                        Ptr::make(ptr.sector(), ptr.gen().next())));
        }
        for (const Fresh& fresh : step.fresh) keys.push_back(fresh.key);
        CO_OK(co_await append_set(parent, keys));
        co_return true;
    }
    std::vector<Key> keys;
    for (const auto& [pos, child] : parent.children) {
        const Node* const node = child.node;
        const auto is_old = [node](const Node* old) { return old == node; };
        if (std::ranges::none_of(step.olds, is_old)) keys.push_back(child.key);
    }
    for (const Fresh& fresh : step.fresh) keys.push_back(fresh.key);
    std::ranges::sort(keys, {}, [](const Key& key) { return key.pos(); });
    above.olds.push_back(&parent);
    CO_OK(co_await write_nodes(parent.level, keys, parent.pos(), above.fresh));
    co_return false;
}

Task<Result<void>> Tree::install_root(Change& change) {
    const Replacement& top = change.steps.back();
    Key root = top.fresh.front().key;
    unsigned level = root_->level;
    if (top.fresh.size() > 1) {
        std::vector<Key> keys;
        for (const Fresh& fresh : top.fresh) keys.push_back(fresh.key);
        ++level;
        CO_OK(co_await write_node(level, keys, ondisk::kPosMax, change.root));
        change.new_root = true;
        root = change.root.key;
    }
    parts_.journal.set_btree_root(root, static_cast<std::uint16_t>(level));
    drop_pins(change);
    co_return co_await parts_.journal.flush(parts_.journal.open_seq());
}

void Tree::drop_pins(Change& change) {
    for (const JournalSeq pin : change.pins) {
        if (pin != 0) parts_.journal.unpin(pin);
    }
    change.pins.clear();
}

Task<Result<void>> Tree::install(Change& change) {
    if (parts_.mutations.has(Mutation::free_before_parent)) {
        for (const Node* old : change.steps.front().olds) {
            if (!old->is_leaf()) continue;
            parts_.allocator.free_metadata(parts_.table.bucket_of(old->key.ptr()), true);
        }
    }
    while (true) {
        const Replacement& step = change.steps.back();
        if (step.olds.front() == root_) co_return co_await install_root(change);
        Node* const parent = parent_of(step.olds.front()->pos(), step.olds.front()->level);
        CHECK(parent != nullptr);
        Replacement above;
        CO_TRY(const bool done, co_await install_in_parent(*parent, step, above));
        if (done) co_return Result<void>{};
        change.steps.push_back(std::move(above));
    }
}

// The last piece keeps the Node object: its position does not change, and tasks may hold it.
void Tree::split_in_memory(Node& node, const std::vector<Fresh>& fresh,
                           std::vector<Child>& pieces) {
    for (std::size_t i = 0; i + 1 < fresh.size(); ++i) {
        auto part = std::make_unique<Node>();
        part->key = fresh[i].key;
        part->level = node.level;
        part->seq = fresh[i].seq;
        part->next_block = fresh[i].next_block;
        const Pos pos = part->pos();
        if (node.is_leaf()) {
            node.extents.cut_at(pos);
            node.unwritten.cut_at(pos);
            node.extents.move_low(pos, part->extents);
            node.unwritten.move_low(pos, part->unwritten);
        } else {
            const auto end = node.children.upper_bound(pos);
            part->children.insert(node.children.begin(), end);
            node.children.erase(node.children.begin(), end);
        }
        Node& adopted = adopt(std::move(part));
        const bool pinned = !parts_.mutations.has(Mutation::split_forgets_pin);
        if (!adopted.unwritten.empty() && pinned) {
            set_pin(adopted, node.pin);
            adopted.newest = node.newest;
        }
        pieces.push_back(Child{adopted.key, &adopted});
    }
    node.key = fresh.back().key;
    node.seq = fresh.back().seq;
    node.next_block = fresh.back().next_block;
    node.dead.clear();
    if (node.unwritten.empty() && node.pin != 0) parts_.journal.unpin(take_pin(node));
    reaccount(node);
    pieces.push_back(Child{node.key, &node});
}

// A node that is gone, but whose object some task may still hold.
void Tree::bury(Node& node) {
    memory_ -= node.accounted;
    const auto it = nodes_.find(node.id);
    graveyard_.push_back(std::move(it->second));
    nodes_.erase(it);
}

void Tree::join_in_memory(Node& into, Node& from) {
    into.extents.absorb(from.extents);
    into.unwritten.absorb(from.unwritten);
    from.extents.clear();  // a task that waits to write it must find nothing to do
    from.unwritten.clear();
    reaccount(into);
    if (from.pin == 0) return;
    into.newest = std::max(into.newest, from.newest);
    const JournalSeq from_pin = take_pin(from);
    if (into.pin == 0 || from_pin < into.pin) {
        const JournalSeq newest = into.newest;
        const JournalSeq into_pin = take_pin(into);
        set_pin(into, from_pin);
        into.newest = newest;
        if (into_pin != 0) parts_.journal.unpin(into_pin);
    }
    parts_.journal.unpin(from_pin);
}

void Tree::apply_step(const Replacement& step, std::vector<Child>& pieces) {
    Node& kept = *step.olds.back();
    Node* const parent = &kept == root_ ? nullptr : parent_of(kept.pos(), kept.level);
    const bool freed = parts_.mutations.has(Mutation::free_before_parent) && kept.is_leaf();
    for (Node* old : step.olds) {
        if (!freed) parts_.allocator.free_metadata(parts_.table.bucket_of(old->key.ptr()), true);
        if (parent == nullptr) continue;
        parent->dead.push_back(old->key.ptr());
        parent->children.erase(old->pos());
    }
    for (Node* old : step.olds) {
        if (old == &kept) continue;
        join_in_memory(kept, *old);
        bury(*old);
    }
    split_in_memory(kept, step.fresh, pieces);
    if (parent == nullptr) return;
    for (const Child& piece : pieces) parent->children.emplace(piece.key.pos(), piece);
}

void Tree::apply(Change& change) {
    drop_pins(change);
    std::vector<Child> pieces;
    for (const Replacement& step : change.steps) {
        pieces.clear();
        apply_step(step, pieces);
    }
    if (!change.new_root) return;
    auto root = std::make_unique<Node>();
    root->key = change.root.key;
    root->level = root_->level + 1;
    root->seq = change.root.seq;
    root->next_block = change.root.next_block;
    for (const Child& piece : pieces) root->children.emplace(piece.key.pos(), piece);
    root_ = &adopt(std::move(root));
}

// Joins two neighbouring leaves under one parent. Gives up where somebody is busy with one of them.
Task<Result<void>> Tree::merge(Node& left, Node& right) {
    if (!left.writing.try_lock()) co_return Result<void>{};
    const async::Mutex::Guard guard_left(left.writing);
    if (!right.writing.try_lock()) co_return Result<void>{};
    const async::Mutex::Guard guard_right(right.writing);
    std::vector<Key> keys(left.extents.begin(), left.extents.end());
    keys.insert(keys.end(), right.extents.begin(), right.extents.end());
    const JournalSeq newest = std::max(left.newest, right.newest);
    left.unwritten.clear();
    right.unwritten.clear();
    Change change;
    change.pins = {take_pin(left)};
    change.pins.push_back(take_pin(right));
    CO_OK(co_await flush_data(newest));
    change.steps.emplace_back();
    change.steps.back().olds.push_back(&left);
    change.steps.back().olds.push_back(&right);
    CO_OK(co_await write_nodes(0, keys, right.pos(), change.steps.back().fresh));
    CO_OK(co_await install(change));
    apply(change);
    ++stats_.merges;
    co_return Result<void>{};
}

// Drops stale keys and records from an interior node's sets. The caller holds structure_.
Task<Result<void>> Tree::rewrite_interior(Node& node) {
    std::vector<Key> keys;
    for (const auto& [pos, child] : node.children) keys.push_back(child.key);
    Change change;
    change.steps.emplace_back();
    change.steps.back().olds.push_back(&node);
    CO_OK(co_await write_nodes(node.level, keys, node.pos(), change.steps.back().fresh));
    CO_OK(co_await install(change));
    apply(change);
    ++stats_.rewrites;
    co_return Result<void>{};
}

}  // namespace uc::index
