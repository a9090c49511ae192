// The content is judged as a read by the model, so whatever the disks say after a crash is pinned,
// and the engine must then return the same. Clean data must equal the backing device at every
// instant, also with requests in flight: were it otherwise, what a reader sees would change when
// the bucket is reused.

#include "sim/audit.h"

#include <algorithm>
#include <cstring>

#include "io/buffer.h"
#include "sim/disk_bytes.h"
#include "sim/load.h"

namespace uc::sim {

namespace {

ondisk::Superblock backing_superblock(const SimDisk& disk) {
    io::Buffer buffer(ondisk::kSuperblockBytes);
    disk.peek(ondisk::kSuperblockSector, buffer.span());
    return ondisk::parse_superblock(buffer.span());
}

bool attached(const ondisk::Superblock& sb) {
    return sb.state() == ondisk::BackingState::clean || sb.state() == ondisk::BackingState::dirty;
}

void judge_content(Machine& machine, Target& target, const DiskChecker& checker,
                   std::optional<Inode> inode) {
    std::optional<DiskBytes> backing;
    if (target.backing != nullptr) backing.emplace(*target.backing);
    const Inode index = inode.value_or(~Inode{0});  // unknown: no extents
    io::Buffer buffer(256 * kSectorBytes);
    for (const Run& run : touched_runs(target.model, 256)) {
        const auto piece = buffer.span().first(run.sectors * kSectorBytes);
        if (!checker.read_device(index, backing ? &*backing : nullptr, target.data_offset(),
                                 run.sector, piece)) {
            return machine.fail(target.label + ": on disk: unreadable");
        }
        const Stamp begun = target.model.begin_read();
        if (auto problem = target.model.end_read(begun, run.sector, piece)) {
            return machine.fail(target.label + ": on disk: " + *problem);
        }
    }
}

void judge_part(Machine& machine, const Target& target, const CachedPart& part) {
    const std::uint64_t offset = target.data_offset();
    if (part.start < offset || part.end - offset > target.plan.sectors) {
        return machine.fail(target.label + ": extent " + std::to_string(part.start) + "-" +
                            std::to_string(part.end) + " outside the device");
    }
    if (part.dirty || target.backing == nullptr) return;
    const std::uint64_t sectors = part.end - part.start;
    io::Buffer cached(sectors * kSectorBytes);
    io::Buffer below(sectors * kSectorBytes);
    machine.cache().peek(part.cache_sector, cached.span());
    target.backing->peek(part.start, below.span());
    for (std::uint64_t i = 0; i < sectors; ++i) {
        const std::size_t at = i * kSectorBytes;
        if (std::memcmp(cached.data() + at, below.data() + at, kSectorBytes) == 0) continue;
        const std::uint64_t sector = part.start + i - offset;
        if (target.model.undefined(sector)) continue;
        return machine.fail(target.label + ": sector " + std::to_string(sector) +
                            " is clean in the cache but differs from the backing device");
    }
}

void judge_target(Machine& machine, Target& target, const DiskChecker& checker) {
    std::optional<Inode> inode;
    bool dirty_allowed = true;
    if (target.backing == nullptr) {
        for (std::size_t i = 0; i < checker.uuids().size(); ++i) {
            const ondisk::UuidEntry& entry = checker.uuids()[i];
            const bool named = target.label == std::string(entry.label.data(), target.label.size());
            if (entry.flash_only() && named) inode = static_cast<Inode>(i);
        }
        if (!inode && target.created) machine.fail(target.label + ": not in the uuid table");
    } else {
        const ondisk::Superblock sb = backing_superblock(*target.backing);
        dirty_allowed = sb.state() == ondisk::BackingState::dirty;
        if (attached(sb)) {
            inode = checker.find(sb.uuid);
            if (!inode) machine.fail(target.label + ": attached, but not in the uuid table");
        }
    }
    if (inode) {
        for (const CachedPart& part : checker.parts(*inode)) {
            if (part.dirty && !dirty_allowed) {
                machine.fail(target.label + ": dirty data, but the superblock says clean");
            }
            judge_part(machine, target, part);
        }
    }
    judge_content(machine, target, checker, inode);
}

}  // namespace

void audit_disks(Machine& machine) {
    const DiskBytes cache(machine.cache());
    const DiskChecker checker(cache);
    if (!checker.problems().empty()) {
        return machine.fail("on disk: " + checker.problems().front());
    }
    if (checker.blank()) return;
    machine.log("  disks: seq " + std::to_string(checker.newest_seq()) + ", level " +
                std::to_string(checker.tree_level()) + ", nodes " +
                std::to_string(checker.nodes()));
    for (Target& target : machine.targets()) judge_target(machine, target, checker);
}

void audit_backing_alone(Machine& machine, Target& target) {
    io::Buffer buffer(256 * kSectorBytes);
    for (const Run& run : touched_runs(target.model, 256, true)) {
        const auto piece = buffer.span().first(run.sectors * kSectorBytes);
        target.backing->peek(run.sector + target.data_offset(), piece);
        const Stamp begun = target.model.begin_read();
        if (auto problem = target.model.end_read(begun, run.sector, piece)) {
            return machine.fail(target.label + ": detached: " + *problem);
        }
    }
}

}  // namespace uc::sim
