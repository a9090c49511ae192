// A b-tree node in memory. What counts is the merged view (`extents` or `children`); the disk holds
// sets that merge to the same, less what is in `unwritten`.
//
// A leaf may hold more in memory than fits its place on disk: inserting never waits for a split.
// The background flusher writes leaves and splits them then.
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <vector>

#include "async/sync.h"
#include "base/units.h"
#include "index/extent_set.h"
#include "ondisk/key.h"

namespace uc::index {

struct Node;

struct Child {
    ondisk::Key key;
    Node* node = nullptr;  // null: not in memory
};

struct Node {
    ondisk::Key key;  // the key that points here: position, size, bucket and seed
    unsigned level = 0;
    std::uint64_t seq = 0;  // common to all sets of the node
    std::uint32_t next_block = 0;
    std::uint64_t id = 0;  // for deterministic order

    // Level 0. `extents` has no invalidation records: they only matter against older sets on disk.
    ExtentSet extents;
    ExtentSet unwritten;
    JournalSeq pin = 0;     // oldest entry with a key in `unwritten`; 0 = none
    JournalSeq newest = 0;  // newest such entry
    Instant dirty_since{};

    // Level > 0. Only what is live; `dead` are pointers of stale keys that are still in sets on
    // disk.
    absl::btree_map<ondisk::Pos, Child> children;
    std::vector<ondisk::Ptr> dead;

    bool must_rewrite = false;  // a torn set lies behind the last good one: nothing may be appended
    bool referenced = false;    // since the last round of eviction
    bool queued = false;        // for flushing
    std::uint64_t accounted = 0;  // its share of the tree's memory count
    std::uint32_t users = 0;      // tasks that hold a pointer across a wait; pins it in memory
    async::Mutex writing;         // one write of this node at a time

    bool is_leaf() const { return level == 0; }
    ondisk::Pos pos() const { return key.pos(); }
    std::uint64_t memory_bytes() const {
        return sizeof(Node) + (extents.size() + unwritten.size()) * 32 + children.size() * 64;
    }
};

// Keeps a node in memory for the current scope.
class NodeUse {
public:
    explicit NodeUse(Node& node) : node_(&node) { ++node_->users; }
    ~NodeUse() { --node_->users; }
    NodeUse(const NodeUse&) = delete;
    NodeUse& operator=(const NodeUse&) = delete;

private:
    Node* node_;
};

}  // namespace uc::index
