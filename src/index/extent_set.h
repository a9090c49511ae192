// A sorted set of disjoint extents with the override rule of the format (section 5.5): a new extent
// takes its range from every older one.
#pragma once

#include <absl/container/btree_set.h>

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "ondisk/key.h"

namespace uc::index {

struct KeyLess {
    using is_transparent = void;
    bool operator()(const ondisk::Key& a, const ondisk::Key& b) const { return a.pos() < b.pos(); }
    bool operator()(const ondisk::Key& a, const ondisk::Pos& b) const { return a.pos() < b; }
    bool operator()(const ondisk::Pos& a, const ondisk::Key& b) const { return a < b.pos(); }
};

class ExtentSet {
public:
    using Set = absl::btree_set<ondisk::Key, KeyLess>;
    using Iterator = Set::const_iterator;

    bool empty() const { return set_.empty(); }
    std::size_t size() const { return set_.size(); }
    Iterator begin() const { return set_.begin(); }
    Iterator end() const { return set_.end(); }
    void clear() { set_.clear(); }

    // First extent that ends after `offset`: the only one that can cover it.
    Iterator first_after(std::uint64_t inode, std::uint64_t offset) const {
        return set_.upper_bound(ondisk::Pos{inode, offset});
    }

    // Removes [key.start, key.end) from the set; `removed(part)` sees what was there. Returns where
    // an extent with this range would go: the first one behind it.
    template <class Removed>
    Iterator carve(const ondisk::Key& key, Removed&& removed) {
        const std::uint64_t from = key.start();
        const std::uint64_t to = key.end();
        auto it = set_.upper_bound(ondisk::Pos{key.inode(), from});
        while (it != set_.end() && it->inode() == key.inode() && it->start() < to) {
            const ondisk::Key old = *it;
            removed(old.part(std::max(from, old.start()), std::min(to, old.end())));
            it = set_.erase(it);
            if (old.start() < from) it = std::next(set_.insert(it, old.part(old.start(), from)));
            if (old.end() > to) return set_.insert(it, old.part(to, old.end()));
        }
        return it;
    }

    // Inserts with override. Joins the left neighbour where that continues it (section 2.9).
    template <class Removed>
    void insert(const ondisk::Key& key, std::uint32_t bucket_sectors, Removed&& removed) {
        CHECK(key.size() != 0);
        Iterator it = carve(key, removed);
        if (it != set_.begin()) {
            const auto left = std::prev(it);
            if (continues(*left, key, bucket_sectors)) {
                ondisk::Key joined = *left;
                joined.set_end(key.end());
                joined.set_size(joined.size() + key.size());
                it = set_.erase(left);
                set_.insert(it, joined);
                return;
            }
        }
        set_.insert(it, key);
    }

    // Splits the extent that straddles `pos`, so that none does.
    void cut_at(ondisk::Pos pos) {
        const auto it = set_.upper_bound(pos);
        if (it == set_.end() || it->inode() != pos.inode || it->start() >= pos.offset) return;
        const ondisk::Key old = *it;
        set_.erase(it);
        set_.insert(old.part(old.start(), pos.offset));
        set_.insert(old.part(pos.offset, old.end()));
    }

    // Moves everything with a position <= pos to `low`, which is empty. Call cut_at(pos) first.
    void move_low(ondisk::Pos pos, ExtentSet& low) {
        const auto end = set_.upper_bound(pos);
        low.set_.insert(set_.begin(), end);
        set_.erase(set_.begin(), end);
    }
    // Adds extents of which none overlaps.
    void absorb(const ExtentSet& other) { set_.insert(other.begin(), other.end()); }

    template <class Predicate>
    void erase_if(Predicate&& predicate) {
        for (auto it = set_.begin(); it != set_.end();) {
            it = predicate(*it) ? set_.erase(it) : std::next(it);
        }
    }

private:
    static bool continues(const ondisk::Key& left, const ondisk::Key& right,
                          std::uint32_t bucket_sectors) {
        if (left.inode() != right.inode() || left.end() != right.start()) return false;
        if (left.ptrs() != right.ptrs() || left.dirty() != right.dirty()) return false;
        const std::uint32_t sum = left.size() + right.size();
        if (sum > ondisk::Key::kMaxSize) return false;
        if (!left.has_ptr()) return sum <= 32768;
        if (left.ptr().advanced(left.size()) != right.ptr()) return false;
        return left.ptr().sector() / bucket_sectors == right.ptr().sector() / bucket_sectors;
    }

    Set set_;
};

}  // namespace uc::index
