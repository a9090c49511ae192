// The one synchronous step that changes the index: journal, leaves and accounts together.

#include <algorithm>

#include "index/tree.h"

namespace uc::index {

using ondisk::Key;
using ondisk::Pos;

JournalSeq Tree::commit(std::span<const Key> keys) {
    JournalSeq seq = 0;
    const std::size_t most = parts_.journal.max_keys();
    for (std::size_t i = 0; i < keys.size(); i += most) {
        const auto part = keys.subspan(i, std::min(most, keys.size() - i));
        seq = parts_.journal.append(part);
        for (const Key& key : part) insert(key, seq);
    }
    return seq;
}

// An extent lies in one leaf (5.4): cut it where leaves end. The journal holds it whole; replay
// cuts, too.
void Tree::insert(const Key& key, JournalSeq seq) {
    Key rest = key;
    while (true) {
        Node* parent = nullptr;
        Child* missing = nullptr;
        Node* const leaf = leaf_for(rest.start_pos(), parent, missing);
        CHECK(leaf != nullptr);
        const Pos limit = leaf->pos();
        if (limit.inode != rest.inode() || rest.end() <= limit.offset) {
            insert_into(*leaf, rest, seq);
            return;
        }
        insert_into(*leaf, rest.part(rest.start(), limit.offset), seq);
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
