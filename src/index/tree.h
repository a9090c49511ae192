// The index: one B+tree of extents for all backing devices and volumes of a set (format section 5).
//
// Memory is the truth, the journal makes it durable, leaves on disk follow in the background. A
// change is one synchronous step, commit(): keys go to the open journal entry and into the leaves
// in memory; the leaf then pins the oldest entry that holds one of its unwritten keys.
//
// Order of writes (format sections 4.10, 5.7, 11.2):
//   data             before  commit() (the caller has waited for it)
//   data             before  a leaf write that names it (I2): a device flush, unless the entry
//   of the
//                            newest key is durable already
//   new node         before  the parent update or entry that points at it (I12; FUA on each)
//   parent update,   before  the old node's generation is incremented and its bucket freed
//   with its record          (I13)
//   leaf             before  the pin of its oldest entry is dropped (I15)
// An append never exceeds one unit that the device writes atomically, so the kernel's strict reader
// accepts every state a crash can leave (11.1); what does not fit in a few appends goes to a new
// node.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/bucket_table.h"
#include "async/sync.h"
#include "async/task.h"
#include "base/mutations.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/time_stats.h"
#include "index/node.h"
#include "io/block_device.h"
#include "io/clock.h"
#include "journal/journal.h"
#include "ondisk/bset.h"

namespace uc::index {

using Pieces = absl::InlinedVector<ondisk::Key, 4>;

struct TreeParts {
    async::Executor& executor;
    io::Clock& clock;
    Rng& rng;
    io::BlockDevice& cache;
    alloc::BucketTable& table;
    alloc::Allocator& allocator;
    journal::Journal& journal;
    std::uint64_t set_magic;
    const std::uint64_t& memory_limit;  // bytes for nodes
    const Mutations& mutations;
};

struct TreeStats {
    std::uint64_t node_reads = 0, node_writes = 0, written_sectors = 0;
    std::uint64_t splits = 0, merges = 0, rewrites = 0, appends = 0;
    std::uint64_t torn_appends = 0;  // ended their node when it was read; replayed instead
    TimeStats reads, split_times;
};

// What a walk of garbage collection saw.
struct Tally {
    std::uint64_t nodes = 0;
    std::uint64_t key_bytes = 0;  // of usable keys, interior ones included
    std::uint64_t extents = 0;    // usable
    std::uint64_t sectors = 0;    // of the extents
};

// What lies in a range, for decisions about writes.
struct Overlap {
    bool dirty = false;
    bool clean = false;  // clean data, or stale data that a crash could make valid again
};

class Tree {
public:
    explicit Tree(const TreeParts& parts);
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;

    // Opening. First load() with the journal's keys, which raises generations (13.2); then replay()
    // entry by entry; then account(), which shows each valid extent to `see`. `problem` names node,
    // bucket and reason on Errc::corrupt.
    Task<Result<void>> load(const ondisk::Key& root, unsigned level,
                            const std::vector<ondisk::Jset>& journal, std::string& problem);
    Task<Result<void>> replay(const ondisk::Jset& entry, std::string& problem);
    using See = std::function<void(const ondisk::Key&)>;
    Task<Result<void>> account(See see, std::string& problem);
    // A blank set: writes an empty root leaf and returns its key.
    Task<Result<ondisk::Key>> create();

    // Background: writes leaves by age, by journal pressure and for memory.
    void run(async::TaskGroup& group);
    void stop();  // ends run(); writes nothing
    // Writes every leaf with unwritten keys.
    Task<Result<void>> write_all();
    // Journal pressure: leaves that pin entries up to `seq` are written soon.
    void want_written(JournalSeq seq);

    // Reading. False: some node is not in memory; then fetch() and try again. Valid extents only,
    // in order, cut to the range; the inode's sectors are [from, to).
    bool try_lookup(std::uint64_t inode, std::uint64_t from, std::uint64_t to, Pieces& out);
    bool try_overlap(std::uint64_t inode, std::uint64_t from, std::uint64_t to, Overlap& out);
    Task<Result<void>> fetch(std::uint64_t inode, std::uint64_t from, std::uint64_t to);

    // Changing. prepare() loads the leaves and waits for room in journal and leaves; afterwards,
    // and after every later wait, ask prepared() and, when true, commit() without a wait in
    // between.
    Task<Result<void>> prepare(std::uint64_t inode, std::uint64_t from, std::uint64_t to);
    bool prepared(std::uint64_t inode, std::uint64_t from, std::uint64_t to);
    // Extents or invalidation records, all inside a prepared range. Returns the journal entry's
    // seq.
    JournalSeq commit(std::span<const ondisk::Key> keys);

    // Walks leaves in order; the extents of the leaf that covers `cursor`, which then moves on.
    // False: it was the last leaf.
    struct Visit {
        bool more = false;
    };
    template <class Function>
    Task<Result<Visit>> visit(ondisk::Pos& cursor, Function function);

    // Garbage collection: looks at the next leaf: writes it if it has unwritten keys, rewrites it
    // if stale pointers make it worth, joins it with its neighbour if both are small, and lowers
    // `oldest` to the oldest generation of any pointer left in it. False: that was the last leaf;
    // then collect_interior(). Both add to `tally`.
    Task<Result<bool>> collect_leaf(ondisk::Pos& cursor, std::vector<Gen>& oldest, Tally& tally);
    Task<Result<void>> collect_interior(std::vector<Gen>& oldest, Tally& tally);

    const Node& root() const { return *root_; }
    std::uint64_t memory_bytes() const { return memory_; }
    std::uint64_t node_count() const { return nodes_.size(); }
    std::size_t keys_per_node() const { return keys_per_node_; }
    const TreeStats& stats() const { return stats_; }
    bool failed() const { return failed_; }
    std::string describe() const;
    std::vector<const Node*> nodes_in_memory() const;
    // Sound structure of what is in memory; broken rules are appended.
    void check_invariants(std::vector<std::string>& broken) const;

private:
    struct Fresh {  // a node written to disk that nothing points at yet
        ondisk::Key key;
        std::uint64_t seq = 0;
        std::uint32_t next_block = 0;
    };
    struct Replacement {  // `olds` (neighbours under one parent) become `fresh`
        std::vector<Node*> olds;
        std::vector<Fresh> fresh;
    };
    struct Change {  // from the leaf upwards; all of it is durable before it is applied
        std::vector<Replacement> steps;
        bool new_root = false;
        Fresh root;
        // Pins of the keys that the change makes durable. A change of the root drops them in the
        // same entry that names the new root, so that the last free block of the ring can free the
        // others.
        std::vector<JournalSeq> pins;
    };

    // descent.cc
    Node* leaf_for(ondisk::Pos pos, Node*& parent, Child*& missing);
    Node* parent_of(ondisk::Pos pos, unsigned level);
    bool in_memory(std::uint64_t inode, std::uint64_t from, std::uint64_t to, ondisk::Pos& missing);
    Task<void> wait_for_memory();
    Task<Result<void>> fetch_leaf(ondisk::Pos pos);
    bool oversized(const Node& leaf) const;

    // node_load.cc
    Task<Result<void>> read_node(ondisk::Key key, unsigned level, Node& out, std::string& problem);
    Result<void> fill_leaf(const ondisk::NodeImage& image, Node& out);
    Result<void> fill_interior(const ondisk::NodeImage& image, Node& out);
    void note(const ondisk::Key& key, unsigned level);
    bool torn_is_journalled(const ondisk::NodeImage& image) const;
    Task<Result<void>> walk(ondisk::Key key, unsigned level, Node* parent, std::string& problem);
    Node& adopt(std::unique_ptr<Node> node);
    void shrink();
    void reaccount(Node& node);

    // commit.cc
    void insert(const ondisk::Key& key, JournalSeq seq);
    void cut(const ondisk::Key& key);
    void insert_into(Node& leaf, const ondisk::Key& key, JournalSeq seq);
    void set_pin(Node& leaf, JournalSeq seq);
    JournalSeq take_pin(Node& leaf);

    // leaf_write.cc
    Task<Result<void>> write_leaf(Node& leaf);
    Task<Result<void>> write_changes(Node& leaf, bool too_large);
    Task<Result<void>> append_leaf(Node& leaf);
    Task<Result<void>> rewrite_leaf(Node& leaf);
    Task<Result<void>> append_set(Node& node, std::span<const ondisk::Key> keys);
    Task<Result<void>> flush_data(JournalSeq newest);
    Task<void> flusher();
    Task<void> write_in_background(Node& leaf);
    Node* next_to_write();
    std::size_t keys_per_append() const;

    // structure.cc
    Task<Result<void>> write_nodes(unsigned level, const std::vector<ondisk::Key>& keys,
                                   ondisk::Pos last, std::vector<Fresh>& out);
    Task<Result<void>> write_node(unsigned level, std::span<const ondisk::Key> keys,
                                  ondisk::Pos pos, Fresh& out);
    Task<Result<void>> install(Change& change);
    Task<Result<bool>> install_in_parent(Node& parent, const Replacement& step, Replacement& above);
    Task<Result<void>> install_root(Change& change);
    void apply(Change& change);
    void drop_pins(Change& change);
    void apply_step(const Replacement& step, std::vector<Child>& pieces);
    void split_in_memory(Node& node, const std::vector<Fresh>& fresh, std::vector<Child>& pieces);
    void join_in_memory(Node& into, Node& from);
    Task<Result<void>> merge(Node& left, Node& right);
    Task<Result<void>> merge_with_next(Node& leaf);  // collect.cc
    Task<Result<void>> rewrite_interior(Node& node);
    void bury(Node& node);

    void fail_set();

    TreeParts parts_;
    const ondisk::Geometry& geometry_;
    std::size_t keys_per_node_;
    Node* root_ = nullptr;
    absl::btree_map<std::uint64_t, std::unique_ptr<Node>> nodes_;  // by id
    std::vector<std::unique_ptr<Node>> graveyard_;  // replaced, but some task still holds them
    std::uint64_t next_id_ = 1;
    std::uint64_t evict_hand_ = 0;
    std::uint64_t memory_ = 0;
    bool accounting_ = false;
    bool recovering_ = false;
    const std::vector<ondisk::Jset>* replayed_ = nullptr;  // while opening

    absl::btree_map<std::pair<JournalSeq, std::uint64_t>, Node*>
        pinned_;                         // leaves to write, by pin
    std::vector<std::uint64_t> urgent_;  // ids of leaves that grew too large
    std::vector<ondisk::Key> cut_;       // while keys are inserted: their parts ...
    std::vector<Node*> cut_leaves_;      // ... and the leaf of each
    JournalSeq wanted_seq_ = 0;
    async::Event kick_;
    async::Event progress_;  // something was written or loaded
    async::Mutex structure_;
    absl::btree_map<std::uint64_t, std::uint32_t>
        loading_;  // bucket -> tasks that wait for its load
    async::Event loaded_;
    async::TaskGroup* group_ = nullptr;
    std::uint32_t writes_in_background_ = 0;
    bool stopping_ = false;
    bool failed_ = false;
    TreeStats stats_;
};

template <class Function>
Task<Result<Tree::Visit>> Tree::visit(ondisk::Pos& cursor, Function function) {
    while (true) {
        Node* parent = nullptr;
        Child* missing = nullptr;
        Node* const leaf = leaf_for(cursor, parent, missing);
        if (leaf == nullptr) {
            CO_OK(co_await fetch_leaf(cursor));
            continue;
        }
        for (auto it = leaf->extents.first_after(cursor.inode, cursor.offset);
             it != leaf->extents.end(); ++it) {
            function(*it);
        }
        Visit result;
        result.more = leaf->pos() != ondisk::kPosMax;
        cursor = leaf->pos();
        co_return result;
    }
}

}  // namespace uc::index
