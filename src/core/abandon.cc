// Giving up data on purpose: the only ways in which dirty data leaves a set without having been
// written back. Each needs the word of a human, who first gets the list of what is lost.
//
//   abandon  the cache is gone for good: its volume goes on with the backing device alone
//              backing superblock "stale"  ->  writes that the cache misses
//            The state makes every set give it a new index, should the cache ever return.
//   forget   a backing device is gone for good: the set goes on without it
//              uuid entry invalidated, durable  ->  its keys dropped
//            Keys whose entry is invalidated belong to nobody. Whoever finds dirty ones, at opening
//            or when a stale device has got its new index, drops them: nothing could ever write
//            them back, and they would fill the cache.

#include <algorithm>
#include <utility>

#include "core/open_set.h"

namespace uc::core {

using ondisk::Key;

// Of what is in memory; enough when the cache is gone and the rest cannot be read.
RangeSet OpenSet::dirty_ranges_in_memory(Inode inode) const {
    RangeSet ranges;
    for (const index::Node* node : tree_.nodes_in_memory()) {
        if (!node->is_leaf()) continue;
        for (auto it = node->extents.first_after(inode, 0);
             it != node->extents.end() && (*it).inode() == inode; ++it) {
            if ((*it).dirty()) ranges.add((*it).start(), (*it).end());
        }
    }
    return ranges;
}

Task<Result<DirtyRanges>> OpenSet::dirty_ranges(ondisk::Uuid uuid) {
    const std::optional<Inode> inode = find_uuid(uuid);
    if (!inode || uuid.is_zero())
        co_return fail(Errc::not_found, "the set does not know this uuid");
    DirtyRanges found;
    found.dirty_sectors = table_.dirty_sectors(*inode);
    const auto take = [&](const Key& key) {
        if (key.inode() != *inode || !key.dirty() || table_.stale(key.ptr())) return;
        found.ranges.push_back({key.start(), key.end()});
    };
    ondisk::Pos at{*inode, 0};
    bool more = found.dirty_sectors != 0;
    while (more && at.inode == *inode) {
        const Result<index::Tree::Visit> visited = co_await tree_.visit(at, take);
        if (!visited) {
            found.ranges = dirty_ranges_in_memory(*inode).ranges();
            break;
        }
        more = visited->more;
    }
    std::uint64_t sum = 0;
    for (const SectorRange& range : found.ranges) sum += range.to - range.from;
    found.complete = sum == found.dirty_sectors;
    co_return std::move(found);
}

Task<Result<void>> OpenSet::abandon(SetVolume& volume) {
    CO_TRY(CachedVolume* const cached, own(volume));
    if (options_.read_only) co_return fail(Errc::read_only, "the set is open for reading only");
    if (failure().empty()) {
        co_return fail(Errc::busy,
                       "its cache is in service: 'detach' writes its data back (a backing device "
                       "that is gone for good can be given up while the set is served without it)");
    }
    if (cached->flash_only()) {
        co_return fail(Errc::invalid, "a flash-only volume has no backing device to go on with");
    }
    co_return co_await cached->abandon_set();
}

Task<Result<void>> OpenSet::forget_device(ondisk::Uuid uuid) {
    co_await uuid_lock_.lock();
    const async::Mutex::Guard guard(uuid_lock_);
    if (stopped_) co_return fail(Errc::stopped, "the set is stopping");
    if (options_.read_only) co_return fail(Errc::read_only, "the set is open for reading only");
    const auto same = [&](const auto& v) { return v->attached() && v->uuid() == uuid; };
    if (std::ranges::any_of(volumes_, same)) {
        co_return fail(Errc::busy, "it is in service: stop, and serve the set without it first");
    }
    const std::optional<Inode> inode = find_uuid(uuid);
    if (!inode || uuid.is_zero())
        co_return fail(Errc::not_found, "the set does not know this uuid");
    uuids_[*inode].uuid = ondisk::kInvalidatedUuid;
    uuids_[*inode].invalidated = env_.clock.wall_seconds();
    CO_OK(co_await write_uuids());
    co_return co_await drop_inode(*inode);
}

Task<Result<void>> OpenSet::drop_inode(Inode inode) {
    std::vector<Key> keys;
    const auto take = [&](const Key& key) {
        if (key.inode() == inode && !table_.stale(key.ptr())) keys.push_back(key);
    };
    ondisk::Pos at{inode, 0};
    bool more = true;
    while (more && at.inode == inode && !stopped_) {
        keys.clear();
        CO_TRY(const index::Tree::Visit visited, co_await tree_.visit(at, take));
        more = visited.more;
        if (!keys.empty()) {
            CO_OK(co_await drop_keys(keys));
        }
        co_await async::Yield();
    }
    co_return Result<void>{};
}

// In the background.
Task<void> OpenSet::drop_orphans() {
    for (Inode inode = 0; inode < uuids_.size() && !stopped_; ++inode) {
        const bool orphan = uuids_[inode].uuid == ondisk::kInvalidatedUuid;
        if (!orphan || table_.dirty_sectors(inode) == 0) continue;
        const Result<void> dropped = co_await drop_inode(inode);
        if (!dropped) co_return;  // the set has failed, or tries again at the next opening
    }
}

}  // namespace uc::core
