// A tree with its journal and allocator on a disk in memory, for the index's tests: committed to,
// written, reopened from what is on the disk. There is no priority table: generations come back
// from the pointers alone.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "index/tree.h"
#include "journal/test_world.h"

namespace uc::index::test {

using journal::test::FakeDisk;
using journal::test::kMagic;
using journal::test::ManualClock;
using ondisk::Key;
using ondisk::Pos;
using ondisk::Ptr;

template <class T>
Task<void> keep(Task<T> task, std::optional<T>& out) {
    T result = co_await std::move(task);
    out.emplace(std::move(result));
}

// Nodes of 4 KiB: 169 keys, an append holds 20.
inline ondisk::Geometry small_nodes() {
    ondisk::Geometry geometry;
    geometry.block_sectors = 1;
    geometry.bucket_sectors = 8;
    geometry.nbuckets = 6000;
    geometry.first_bucket = 3;
    geometry.njournal = 32;
    return geometry;
}

class TreeWorld {
public:
    struct Parts {
        Parts(TreeWorld& world)
            : table(world.geometry),
              allocator(table),
              journal(world.executor, world.clock, world.disk, world.geometry, kMagic,
                      world.delay_ms),
              tree(TreeParts{world.executor, world.clock, world.rng, world.disk, table, allocator,
                             journal, kMagic, world.memory_limit, world.mutations}),
              group(world.executor) {
            journal.on_pressure([this](JournalSeq seq) { tree.want_written(seq); });
        }
        alloc::BucketTable table;
        alloc::Allocator allocator;
        journal::Journal journal;
        Tree tree;
        async::TaskGroup group;
    };

    TreeWorld() {
        parts = std::make_unique<Parts>(*this);
        parts->allocator.list_unreferenced();
        const auto root = run(parts->tree.create());
        journal::Roots roots = journal::test::some_roots();
        roots.btree_root = *root;
        parts->journal.start_blank(roots);
        start();
    }
    ~TreeWorld() { executor.drop_all(); }
    TreeWorld(const TreeWorld&) = delete;
    TreeWorld& operator=(const TreeWorld&) = delete;

    Tree& tree() { return parts->tree; }
    alloc::BucketTable& table() { return parts->table; }
    journal::Journal& journal() { return parts->journal; }

    template <class T>
    T run(Task<T> task) {
        std::optional<T> result;
        executor.spawn(keep(std::move(task), result));
        executor.run_ready();
        for (int i = 0; !result && i < 1000; ++i) {
            clock.advance(std::chrono::milliseconds(100));
            executor.run_ready();
        }
        CHECK(result.has_value());
        return std::move(*result);
    }

    // As after a crash now: only what is on the disk counts.
    Result<void> reopen() {
        executor.drop_all();
        parts = std::make_unique<Parts>(*this);
        problem.clear();
        const Result<void> done = run(recover());
        if (!done) return done;
        parts->allocator.list_unreferenced();
        start();
        return done;
    }

    // A new extent [start, start + sectors) with space of its own.
    Key extent(std::uint64_t start, std::uint32_t sectors = 1, bool dirty = false,
               std::uint64_t inode = 1) {
        recycle();
        const auto stream = dirty ? alloc::Stream::dirty : alloc::Stream::clean;
        const auto space = parts->allocator.try_allocate(stream, sectors);
        CHECK(space && space->sectors == sectors);
        unpin_.push_back(space->ptr);
        return Key::extent(inode, start + sectors, sectors, space->ptr, dirty);
    }
    static Key record(std::uint64_t start, std::uint32_t sectors, std::uint64_t inode = 1) {
        return Key::invalidation(inode, start + sectors, sectors);
    }
    JournalSeq commit(const Key& key) {
        const std::vector<Key> one{key};
        return commit(one);
    }
    JournalSeq commit(const std::vector<Key>& keys) {
        JournalSeq seq = 0;
        for (const Key& key : keys) {
            while (!tree().prepared(key.inode(), key.start(), key.end())) {
                const auto ready = run(tree().prepare(key.inode(), key.start(), key.end()));
                CHECK(ready.has_value());
            }
            seq = tree().commit(std::span<const Key>(&key, 1));
        }
        for (const Ptr ptr : unpin_) parts->allocator.unpin(ptr);
        unpin_.clear();
        return seq;
    }
    // `count` extents of one sector that cannot be joined, from `first` on, 4 sectors apart.
    void commit_many(std::uint64_t count, std::uint64_t first = 0) {
        for (std::uint64_t i = 0; i < count; ++i) commit(extent(first + 4 * i));
    }
    std::vector<Key> lookup(std::uint64_t from, std::uint64_t to, std::uint64_t inode = 1) {
        Pieces pieces;
        while (!tree().try_lookup(inode, from, to, pieces)) {
            const auto fetched = run(tree().fetch(inode, from, to));
            CHECK(fetched.has_value());
        }
        return {pieces.begin(), pieces.end()};
    }
    bool covered(std::uint64_t sector) { return !lookup(sector, sector + 1).empty(); }
    // Every one of commit_many()'s extents is found.
    std::uint64_t found(std::uint64_t count, std::uint64_t first = 0) {
        std::uint64_t hits = 0;
        for (std::uint64_t i = 0; i < count; ++i) hits += covered(first + 4 * i);
        return hits;
    }
    void write_all() { ASSERT_TRUE(run(tree().write_all())); }
    bool flush() { return run(journal().flush(journal().open_seq())).has_value(); }
    // The reclaimer's part, without its table: unreferenced buckets become free.
    void recycle() {
        if (parts->allocator.wanted() == 0) return;
        for (BucketIndex b = 0; b < table().size(); ++b) {
            if (!table().reclaimable(b) || table().at(b).live != 0) continue;
            table().invalidate(b);
            table().at(b).durable_gen = table().at(b).last_gc = table().at(b).gen;
            parts->allocator.release(b);
        }
    }
    // Goes through all leaves as the collector does.
    std::vector<Gen> collect() {
        std::vector<Gen> oldest;
        Tally tally;
        for (BucketIndex b = 0; b < table().size(); ++b) oldest.push_back(table().at(b).gen);
        Pos cursor{};
        while (*run(tree().collect_leaf(cursor, oldest, tally))) recycle();
        EXPECT_TRUE(run(tree().collect_interior(oldest, tally)));
        return oldest;
    }
    std::vector<std::string> broken() {
        std::vector<std::string> rules;
        tree().check_invariants(rules);
        return rules;
    }
    // A node's bytes on the disk.
    std::span<std::byte> bytes_of(const Key& node) {
        return std::span(disk.bytes)
            .subspan(node.ptr().sector() * kSectorBytes, node.size() * kSectorBytes);
    }
    Result<ondisk::NodeImage> strict(const Key& node) {
        std::uint32_t block = 0;
        return ondisk::decode_node(bytes_of(node), kMagic, node.ptr().raw(), geometry, false,
                                   &block);
    }

    ondisk::Geometry geometry = small_nodes();
    std::uint32_t delay_ms = 100;
    std::uint64_t memory_limit = std::uint64_t{64} << 20;
    Mutations mutations;
    FakeDisk disk{geometry.nbuckets * geometry.bucket_sectors};
    ManualClock clock;
    async::Executor executor;
    Rng rng{42};
    std::string problem;
    std::unique_ptr<Parts> parts;

private:
    void start() {
        parts->journal.run(parts->group);
        parts->tree.run(parts->group);
        executor.run_ready();
    }
    Task<Result<void>> recover() {
        journal::Recovered recovered;
        CO_OK(co_await journal::read_ring(disk, geometry, kMagic, false, recovered));
        const ondisk::Jset& newest = recovered.entries.back();
        CO_OK(co_await tree().load(newest.btree_root, newest.btree_level, recovered.entries,
                                   problem));
        journal::Roots roots = journal::test::some_roots();
        roots.btree_root = newest.btree_root;
        roots.btree_level = newest.btree_level;
        parts->journal.start_recovered(recovered, roots);
        for (const ondisk::Jset& entry : recovered.entries) {
            CO_OK(co_await tree().replay(entry, problem));
            parts->journal.unpin(entry.seq);
        }
        co_return co_await tree().account(nullptr, problem);
    }

    std::vector<Ptr> unpin_;
};

}  // namespace uc::index::test
