// The one synchronous step that changes the index: journal, leaves and accounts together.
//
// An extent lies in one leaf (5.4), so keys are cut where leaves end: before they enter the
// journal, not only on their way into the leaves. A reader may cut for itself, and ours does. But
// the kernel's replay gives up, and with it the whole set, at a key that lies in two leaves of
// which the first has to be compacted or split to take its part: when the kernel looks at that leaf
// again, now for nothing, it takes "nothing inserted" for an error. It happens where a crash left
// many keys to replay for leaves that are nearly full. What was journalled before a leaf was split
// may still lie across the new border; but then both leaves are new and have room.

#include <algorithm>

#include "index/tree.h"

namespace uc::index {

using ondisk::Key;
using ondisk::Pos;

JournalSeq Tree::commit(std::span<const Key> keys) {
    cut_.clear();
    cut_leaves_.clear();
    for (const Key& key : keys) cut(key);
    const std::span<const Key> pieces = cut_;
    JournalSeq seq = 0;
    const std::size_t most = parts_.journal.max_keys();
    for (std::size_t i = 0; i < pieces.size(); i += most) {
        const std::size_t end = std::min(i + most, pieces.size());
        seq = parts_.journal.append(pieces.subspan(i, end - i));
        for (std::size_t k = i; k < end; ++k) insert_into(*cut_leaves_[k], pieces[k], seq);
    }
    return seq;
}

void Tree::insert(const Key& key, JournalSeq seq) {
    cut_.clear();
    cut_leaves_.clear();
    cut(key);
    for (std::size_t k = 0; k < cut_.size(); ++k) insert_into(*cut_leaves_[k], cut_[k], seq);
}

// Adds the parts of `key` to those that are about to be inserted.
void Tree::cut(const Key& key) {
    Key rest = key;
    while (true) {
        Node* parent = nullptr;
        Child* missing = nullptr;
        Node* const leaf = leaf_for(rest.start_pos(), parent, missing);
        CHECK(leaf != nullptr);
        const Pos limit = leaf->pos();
        cut_leaves_.push_back(leaf);
        if (limit.inode != rest.inode() || rest.end() <= limit.offset) {
            cut_.push_back(rest);
            return;
        }
        cut_.push_back(rest.part(rest.start(), limit.offset));
        rest.cut_front(limit.offset);
    }
}

void Tree::insert_into(Node& leaf, const Key& key, JournalSeq seq) {
    const std::uint32_t bucket = geometry_.bucket_sectors;
    const auto removed = [this](const Key& part) {
        if (accounting_) parts_.table.remove(part);
    };
    const auto ignore = [](const Key&) {};
    if (key.has_ptr()) {
        leaf.extents.insert(key, bucket, removed);
        if (accounting_) parts_.table.add(key);
    } else {
        leaf.extents.carve(key, removed);
    }
    leaf.unwritten.insert(key, bucket, ignore);
    set_pin(leaf, seq);
    leaf.newest = std::max(leaf.newest, seq);
    reaccount(leaf);
    if (leaf.extents.size() > keys_per_node_ && !leaf.queued) {
        leaf.queued = true;
        urgent_.push_back(leaf.id);
        kick_.notify();
    }
}

void Tree::set_pin(Node& leaf, JournalSeq seq) {
    if (leaf.pin != 0) return;
    leaf.pin = seq;
    leaf.dirty_since = parts_.clock.now();
    parts_.journal.pin(seq);
    pinned_.emplace(std::pair(seq, leaf.id), &leaf);
    if (seq <= wanted_seq_ || pinned_.size() == 1) kick_.notify();
}

// Takes the leaf off the list of those to write; the caller unpins what is returned once that is
// durable.
JournalSeq Tree::take_pin(Node& leaf) {
    const JournalSeq pin = leaf.pin;
    if (pin != 0) pinned_.erase(std::pair(pin, leaf.id));
    leaf.pin = 0;
    leaf.newest = 0;
    return pin;
}

}  // namespace uc::index
