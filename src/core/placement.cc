// Which backing devices may join, and where they go (format sections 7.9, 9.3). Nothing is written
// here: what is refused keeps every byte.

#include <fmt/format.h>

#include <algorithm>

#include "core/names.h"
#include "core/open_set.h"

namespace uc::core {

using ondisk::BackingState;
using ondisk::Key;
using ondisk::Superblock;

Result<Superblock> OpenSet::check_backing(std::span<const std::byte> bytes,
                                          const io::BlockDevice& device, Report& report) const {
    const auto refuse = [&](std::string why, Error error) {
        report.refusal = fmt::format("{}: {}", device.name(), why);
        return tl::unexpected<Error>(error);
    };
    auto superblock =
        ondisk::decode_superblock(bytes, device.size_sectors(), device.logical_block_sectors());
    if (!superblock) {
        return refuse(fmt::format("superblock: {}", superblock.error().what), superblock.error());
    }
    if (!superblock->is_backing()) {
        return refuse("this is a cache device, not a backing device",
                      Error{Errc::invalid, 0, "not a backing device"});
    }
    if (superblock->data_offset() >= device.size_sectors()) {
        return refuse("the device is smaller than its data offset",
                      Error{Errc::corrupt, 0, "bad data offset"});
    }
    const auto same = [&](const auto& volume) { return volume->uuid() == superblock->uuid; };
    const auto twin = std::ranges::find_if(volumes_, same);
    if (twin != volumes_.end()) {
        return refuse(fmt::format("its uuid {} is that of {}, which is in service: a copy of that "
                                  "device, or a second path to it",
                                  superblock->uuid.to_string(), (*twin)->backing_name()),
                      Error{Errc::busy, 0, "duplicate uuid"});
    }
    return superblock;
}

// The rules of section 7.9.
Result<OpenSet::Placement> OpenSet::place(const Superblock& superblock, const std::string& name,
                                          AttachMode mode, Report& report) const {
    const auto refuse = [&](std::string why, Error error) {
        report.refusal = fmt::format("{}: {}", name, why);
        return tl::unexpected<Error>(error);
    };
    Placement placement;
    const bool ours = superblock.set_uuid == superblock_.set_uuid;
    const BackingState state = superblock.state();
    const bool bound = state == BackingState::clean || state == BackingState::dirty;
    if (!ours && bound) {
        return refuse(fmt::format("it belongs to cache set {} (state {}); open that set, or detach "
                                  "the device there first",
                                  superblock.set_uuid.to_string(), ondisk::name_of(state)),
                      Error{Errc::invalid, 0, "belongs to another set"});
    }
    if (!ours && mode == AttachMode::known) return placement;  // runs without a cache
    if (superblock.block_size < geometry_.block_sectors) {
        return refuse(fmt::format("its block size ({} sectors) is smaller than the set's ({})",
                                  superblock.block_size, geometry_.block_sectors),
                      Error{Errc::invalid, 0, "block size smaller than the set's"});
    }
    const std::optional<Inode> known = find_uuid(superblock.uuid);
    if (known && bound) {
        // We never leave this behind. The kernel may, in a crash (11.4); so does whoever puts an
        // older copy of the cache device in its place, and then the cache's data is out of date.
        const std::uint64_t dirty = table_.dirty_sectors(*known);
        if (state == BackingState::clean && dirty != 0) {
            const std::string odd =
                fmt::format("it is marked clean, but the cache has {} dirty sectors of it", dirty);
            if (mode == AttachMode::known && !options_.read_only) {
                return refuse(odd +
                                  ": is the cache device an older copy? If not, and the kernel's "
                                  "bcache has crashed with it, attach it explicitly (serve "
                                  "--attach): then the cache's data counts",
                              Error{Errc::invalid, 0, "clean, with dirty data in the cache"});
            }
            report.notes.push_back(fmt::format("{}: {}, which counts", name, odd));
        }
        placement.attach = true;
        placement.inode = *known;
        return placement;
    }
    if (state == BackingState::dirty) {
        return refuse("it is dirty, but the set does not know it: its newest data are elsewhere",
                      Error{Errc::not_found, 0, "uuid not in the set"});
    }
    if (options_.read_only) return placement;
    if (known) {
        const std::uint64_t dirty_kib = (table_.dirty_sectors(*known) + 1) / 2;
        const std::string dirty =
            dirty_kib == 0 ? "" : fmt::format(", {} KiB of dirty data included", dirty_kib);
        report.notes.push_back(
            fmt::format("{}: it was used without this cache or its dirty data was given up (state "
                        "{}): what the cache has of it is out of date and is dropped{}",
                        name, ondisk::name_of(state), dirty));
    }
    placement.old_entry = known;
    const std::optional<Inode> free = find_uuid(ondisk::Uuid{});
    if (!free) {
        return refuse("the set's uuid table is full",
                      Error{Errc::no_space, 0, "no room in the uuid table"});
    }
    placement.attach = true;
    placement.new_entry = true;
    placement.inode = *free;
    return placement;
}

// The cache may hold extents past the end of a device that has become smaller. Dirty ones have
// nowhere to go: refused. Clean ones go now, since the device may grow again and have something
// else there.
Task<Result<void>> OpenSet::check_size(Inode inode, const io::BlockDevice& device, Report& report) {
    const std::uint64_t end =
        device.size_sectors() / geometry_.block_sectors * geometry_.block_sectors;
    std::vector<Key> beyond;
    std::uint64_t last = 0;
    std::uint64_t dropped = 0;
    bool dirty = false;
    const auto look = [&](const Key& key) {
        if (key.inode() != inode || table_.stale(key.ptr())) return;
        dirty |= key.dirty();
        last = std::max(last, key.end());
        beyond.push_back(key.part(std::max(key.start(), end), key.end()));
    };
    ondisk::Pos at{inode, end};
    bool more = true;
    while (more && at.inode == inode) {
        beyond.clear();
        CO_TRY(const index::Tree::Visit visited, co_await tree_.visit(at, look));
        more = visited.more;
        if (dirty) {
            report.refusal = fmt::format(
                "{}: it has {} sectors, but the cache holds dirty data of it up to sector {}: it "
                "has shrunk or is another device; give it its size back",
                device.name(), device.size_sectors(), last);
            co_return fail(Errc::invalid, "dirty data past the end of the device");
        }
        if (options_.read_only || beyond.empty()) continue;
        dropped += beyond.size();
        CO_OK(co_await drop_keys(beyond));
    }
    if (dropped != 0) {
        report.notes.push_back(
            fmt::format("{}: it has become smaller; {} cached extents past its "
                        "end were dropped",
                        device.name(), dropped));
    }
    co_return Result<void>{};
}

// Ascending keys of one volume.
Task<Result<void>> OpenSet::drop_keys(const std::vector<Key>& keys) {
    const Inode inode = static_cast<Inode>(keys.front().inode());
    while (!tree_.prepared(inode, keys.front().start(), keys.back().end())) {
        CO_OK(co_await tree_.prepare(inode, keys.front().start(), keys.back().end()));
    }
    std::vector<Key> records;
    for (const Key& key : keys) {
        records.push_back(Key::invalidation(inode, key.end(), key.size()));
    }
    tree_.commit(records);
    co_return Result<void>{};
}

}  // namespace uc::core
