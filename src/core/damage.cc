// Damaged tables, at opening.
//
// The priority table can be rebuilt. What it alone knows are the generations of buckets that were
// taken back: without it a stale pointer looks like a valid one, and its bucket may hold anything
// by now. Two kinds of pointers are valid for certain:
//   * nodes: the records of replaced nodes lie beside the pointers to their successors (5.6);
//   * dirty extents, merged and replayed: a bucket is taken back only when, durably, nothing dirty
//     is in it (6.3). So all of its pointers with that generation are valid, clean ones too.
// In all other buckets every pointer that was seen becomes stale: the generation is one more than
// the newest of them. That drops clean data, which the backing devices have. Before anything is
// reused the new generations are durable in a new table.
//
// The uuid table has no checksum and no second copy, and without it nobody knows which device the
// data belong to; a new device would inherit them. So a table is refused that cannot be what was
// written: an entry with impossible fields, or data in the cache under an index that is free (those
// of detached devices are marked, not freed, 5.9).

#include <fmt/format.h>

#include "core/open_set.h"

namespace uc::core {

using ondisk::Key;
using ondisk::UuidEntry;

Task<Result<void>> OpenSet::rebuild_generations(std::string& problem) {
    std::vector<bool> valid(table_.size());
    std::optional<BucketIndex> reused;
    const auto look = [&](const Key& key) {
        if (!key.dirty()) return;
        const BucketIndex bucket = table_.bucket_of(key.ptr());
        if (table_.at(bucket).gen != key.ptr().gen()) reused = bucket;
        valid[bucket] = true;
    };
    ondisk::Pos cursor{};
    bool more = true;
    while (more) {
        const Result<index::Tree::Visit> visited = co_await tree_.visit(cursor, look);
        if (!visited) {
            problem = "a b-tree node could not be read";
            co_return tl::unexpected(visited.error());
        }
        more = visited->more;
    }
    if (reused) {
        problem = fmt::format(
            "priority table and index are damaged: bucket {} holds dirty data, but was reused",
            *reused);
        co_return fail(Errc::corrupt, "dirty data in a reused bucket");
    }
    for (BucketIndex b = 0; b < table_.size(); ++b) {
        alloc::Bucket& bucket = table_.at(b);
        if (bucket.seen && bucket.use == alloc::Use::none && !valid[b]) {
            bucket.gen = bucket.gen.next();
        }
    }
    co_return Result<void>{};
}

std::string OpenSet::uuid_damage(const Holdings& holdings) const {
    std::string why;
    std::string rest;
    for (Inode inode = 0; inode < uuids_.size() && why.empty(); ++inode) {
        if (!ondisk::plausible(uuids_[inode])) why = fmt::format("entry {} is nonsense", inode);
    }
    for (const auto& [inode, holding] : holdings.by_inode()) {
        if (inode < uuids_.size() && !uuids_[inode].is_free()) continue;
        if (why.empty())
            why = fmt::format("entry {}, which has data in the cache, is empty", inode);
    }
    if (why.empty()) return why;
    for (const auto& [inode, holding] : holdings.by_inode()) {
        rest += fmt::format("{}index {}: {} sectors, {} of them dirty, up to sector {}",
                            rest.empty() ? "" : "; ", inode, holding.sectors, holding.dirty,
                            holding.end);
    }
    return fmt::format(
        "uuid table in bucket {}: {}; which device the data in the cache belong to is not known "
        "any more. The index is sound and names what can be extracted: {}",
        *uuid_bucket_, why, rest.empty() ? "nothing" : rest);
}

}  // namespace uc::core
