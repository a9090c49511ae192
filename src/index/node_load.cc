// Nodes from disk: reading, judging keys, and the walk of recovery (format sections 5.3
// to 5.6, 13.2).
//
// Generations are recovered on the way: a pointer newer than the table raises its bucket's
// generation. The freed-node records of a node are processed before its children are judged.

#include <fmt/format.h>

#include <algorithm>

#include "index/tree.h"
#include "io/buffer.h"
#include "ondisk/validate.h"

namespace uc::index {

using ondisk::Bset;
using ondisk::Key;
using ondisk::Pos;

Tree::Tree(const TreeParts& parts)
    : parts_(parts),
      geometry_(parts.table.geometry()),
      keys_per_node_((geometry_.node_sectors() * kSectorBytes - sizeof(ondisk::BsetHeader)) /
                     ondisk::kKeyMaxBytes) {}

Node& Tree::adopt(std::unique_ptr<Node> node) {
    node->id = next_id_++;
    Node& adopted = *node;
    reaccount(adopted);
    nodes_.emplace(adopted.id, std::move(node));
    return adopted;
}

void Tree::reaccount(Node& node) {
    const std::uint64_t bytes = node.memory_bytes();
    memory_ += bytes - node.accounted;
    node.accounted = bytes;
}

Task<Result<void>> Tree::read_node(Key key, unsigned level, Node& out, std::string& problem) {
    io::Buffer buffer(key.size() * kSectorBytes);
    const BucketIndex bucket = parts_.table.bucket_of(key.ptr());
    const Result<void> read = co_await parts_.cache.read(key.ptr().sector(), buffer.span());
    if (!read) {
        problem = fmt::format("b-tree node: bucket {} cannot be read", bucket);
        co_return tl::unexpected(read.error());
    }
    ++stats_.node_reads;
    std::uint32_t block = 0;
    const auto image = ondisk::decode_node(buffer.span(), parts_.set_magic, key.ptr().raw(),
                                           geometry_, true, &block);
    if (!image) {
        problem = fmt::format("b-tree node of level {}: {} at bucket {}, block {}", level,
                              image.error().what, bucket, block);
        co_return tl::unexpected(image.error());
    }
    if (image->torn && (level != 0 || !torn_is_journalled(*image))) {
        problem = fmt::format(
            "b-tree node of level {}: bad checksum at bucket {}, block {}, and the "
            "journal does not hold the keys that are lost",
            level, bucket, image->next_block);
        co_return fail(Errc::corrupt, "bad checksum");
    }
    out.key = key;
    out.level = level;
    out.seq = image->seq;
    out.next_block = image->next_block;
    out.must_rewrite = image->torn;
    stats_.torn_appends += image->torn;
    const Result<void> filled = level == 0 ? fill_leaf(*image, out) : fill_interior(*image, out);
    if (!filled) {
        problem = fmt::format("b-tree node of level {}: {} at bucket {}", level,
                              filled.error().what, bucket);
    }
    co_return filled;
}

// A torn append may be dropped only if everything in it is still to be replayed: otherwise it is
// not a torn write but damage to keys that were durable long ago. So is a set of which nothing can
// be read: a torn one begins with keys, zeroes prove nothing.
bool Tree::torn_is_journalled(const ondisk::NodeImage& image) const {
    if (replayed_ == nullptr) return false;
    const auto holds = [](const Key& whole, const Key& part) {
        if (whole.inode() != part.inode() || whole.ptrs() != part.ptrs()) return false;
        if (whole.start() > part.start() || whole.end() < part.end()) return false;
        if (!whole.has_ptr()) return true;
        return whole.dirty() == part.dirty() &&
               whole.ptr().advanced(part.start() - whole.start()) == part.ptr();
    };
    const auto real = [](const Key& key) { return key.size() != 0; };
    if (std::ranges::none_of(image.torn_keys, real)) return false;
    return std::ranges::all_of(image.torn_keys, [&](const Key& part) {
        return part.size() == 0 || std::ranges::any_of(*replayed_, [&](const ondisk::Jset& entry) {
                   return std::ranges::any_of(entry.keys,
                                              [&](const Key& whole) { return holds(whole, part); });
               });
    });
}

Result<void> Tree::fill_leaf(const ondisk::NodeImage& image, Node& out) {
    const auto ignore = [](const Key&) {};
    for (const Bset& set : image.sets) {
        for (const Key& key : set.keys) {
            if (key.size() == 0) continue;
            TRY_OK(ondisk::validate_extent_key(key, geometry_));
            if (key.pos() > out.pos()) return fail(Errc::corrupt, "short btree key");
            // Keys that a later set overrides count as well: no new pointer may have their
            // generation.
            if (recovering_) note(key, 0);
            if (key.has_ptr() && key.ptr().available()) {
                out.extents.insert(key, geometry_.bucket_sectors, ignore);
            } else {
                out.extents.carve(key, ignore);
            }
        }
    }
    return {};
}

Result<void> Tree::fill_interior(const ondisk::NodeImage& image, Node& out) {
    std::vector<Key> keys;
    for (const Bset& set : image.sets) {
        for (const Key& key : set.keys) {
            TRY_OK(ondisk::validate_node_key(key, geometry_));
            if (key.pos() > out.pos()) return fail(Errc::corrupt, "short btree key");
            if (!key.ptr().available()) continue;
            if (key.pos() == ondisk::kPosZero) {
                note(key, out.level);
            } else {
                keys.push_back(key);
            }
        }
    }
    for (const Key& key : keys) note(key, out.level);
    for (const Key& key : keys) {
        if (parts_.table.stale(key.ptr())) {
            out.dead.push_back(key.ptr());
            continue;
        }
        const bool fresh = out.children.emplace(key.pos(), Child{key, nullptr}).second;
        if (!fresh) return fail(Errc::corrupt, "two live children with one position");
    }
    if (out.children.empty() || out.children.rbegin()->first != out.pos()) {
        return fail(Errc::corrupt, "last child does not end where the node ends");
    }
    return {};
}

// 13.2. Level is that of the node that contains the key.
void Tree::note(const Key& key, unsigned level) {
    if (!key.has_ptr() || !key.ptr().available()) return;
    parts_.table.learn(key.ptr());
    alloc::Bucket& bucket = parts_.table.of(key.ptr());
    const Gen gen = key.ptr().gen();
    const bool record = level > 0 && key.pos() == ondisk::kPosZero;
    if (!record && bucket.last_gc.newer_than(gen) != 0) bucket.last_gc = gen;
}

Task<Result<void>> Tree::load(const Key& root, unsigned level,
                              const std::vector<ondisk::Jset>& journal, std::string& problem) {
    recovering_ = true;
    replayed_ = &journal;
    note(root, level + 1);
    const Result<void> walked = co_await walk(root, level, nullptr, problem);
    recovering_ = false;
    CO_OK(walked);
    for (const ondisk::Jset& entry : journal) {
        for (const Key& key : entry.keys) {
            if (key.size() == 0) continue;
            const Result<void> valid = ondisk::validate_extent_key(key, geometry_);
            if (!valid) {
                problem = fmt::format("journal entry {}: {}", entry.seq, valid.error().what);
                co_return tl::unexpected(valid.error());
            }
            note(key, 0);
        }
    }
    co_return Result<void>{};
}

// Depth first. Leaves stay in memory as long as the limit allows.
Task<Result<void>> Tree::walk(Key key, unsigned level, Node* parent, std::string& problem) {
    const BucketIndex bucket = parts_.table.bucket_of(key.ptr());
    if (parts_.table.at(bucket).use == alloc::Use::node) {
        problem = fmt::format("b-tree node: bucket {} is referenced twice", bucket);
        co_return fail(Errc::corrupt, "node referenced twice");
    }
    parts_.table.set_use(bucket, alloc::Use::node);
    auto fresh = std::make_unique<Node>();
    CO_OK(co_await read_node(key, level, *fresh, problem));
    Node& node = adopt(std::move(fresh));
    if (parent == nullptr) {
        root_ = &node;
    } else {
        parent->children.find(key.pos())->second.node = &node;
    }
    if (level == 0) {
        shrink();
        co_return Result<void>{};
    }
    for (auto& [pos, child] : node.children) {
        const Key child_key = child.key;
        CO_OK(co_await walk(child_key, level - 1, &node, problem));
    }
    co_return Result<void>{};
}

Task<Result<void>> Tree::replay(const ondisk::Jset& entry, std::string& problem) {
    for (const Key& key : entry.keys) {
        if (key.size() == 0) continue;
        const Result<void> fetched = co_await fetch(key.inode(), key.start(), key.end());
        if (!fetched) {
            problem = "a b-tree node could not be read during replay";
            co_return fetched;
        }
        if (key.has_ptr() && !key.ptr().available()) {
            insert(Key::invalidation(key.inode(), key.end(), key.size()), entry.seq);
        } else {
            insert(key, entry.seq);
        }
    }
    co_return Result<void>{};
}

Task<Result<void>> Tree::account(See see, std::string& problem) {
    parts_.table.clear_accounts();
    Pos cursor{};
    bool more = true;
    std::uint64_t clash = 0;
    while (more) {
        const auto count = [&](const Key& key) {
            if (parts_.table.stale(key.ptr())) return;
            const alloc::Use use = parts_.table.of(key.ptr()).use;
            if (use != alloc::Use::none && use != alloc::Use::data) {
                clash = parts_.table.bucket_of(key.ptr());
                return;
            }
            parts_.table.add(key);
            if (see) see(key);
        };
        CO_TRY(const Visit visited, co_await visit(cursor, count));
        more = visited.more;
        if (clash != 0) {
            problem = fmt::format(
                "inconsistent ptrs: bucket {} is referenced as data and as "
                "metadata",
                clash);
            co_return fail(Errc::corrupt, "inconsistent ptrs");
        }
    }
    accounting_ = true;
    replayed_ = nullptr;
    co_return Result<void>{};
}

// Second chance: leaves that were used since the last round stay. One round, whatever the limit:
// a request needs all leaves of its range at once, and were one evicted while the next is loaded,
// it would go on loading them for ever.
void Tree::shrink() {
    std::uint64_t looks = nodes_.size();
    while (memory_ > parts_.memory_limit && looks-- > 0) {
        auto it = nodes_.upper_bound(evict_hand_);
        if (it == nodes_.end()) it = nodes_.begin();
        evict_hand_ = it->first;
        Node& node = *it->second;
        if (std::exchange(node.referenced, false)) continue;
        if (!node.is_leaf() || &node == root_ || node.users != 0 || node.pin != 0) continue;
        if (!node.unwritten.empty() || node.must_rewrite || node.queued) continue;
        Node* const parent = parent_of(node.pos(), 0);
        if (parent == nullptr) continue;
        parent->children.find(node.pos())->second.node = nullptr;
        memory_ -= node.accounted;
        nodes_.erase(it);
    }
    std::erase_if(graveyard_, [](const auto& node) { return node->users == 0; });
}

}  // namespace uc::index
