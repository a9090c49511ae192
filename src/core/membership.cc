// Who belongs to the set: attaching and detaching backing devices, flash-only volumes, the uuid
// table (format sections 5.9, 7.9, 7.11, 9.3).
//
// Attach:  uuid table with the new entry durable  ->  backing superblock names the set  (I18)
// Detach:  everything written back and flushed    ->  backing superblock "none", no set
//                                                 ->  uuid table entry invalidated
// A crash in between leaves a device that is free, or an entry that nobody claims; both attach
// anew.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/labels.h"
#include "core/names.h"
#include "core/open_set.h"
#include "io/buffer.h"

namespace uc::core {

using ondisk::BackingState;
using ondisk::Superblock;
using ondisk::UuidEntry;

std::optional<Inode> OpenSet::find_uuid(const ondisk::Uuid& uuid) const {
    for (Inode i = 0; i < uuids_.size(); ++i) {
        if (uuids_[i].uuid == uuid) return i;
    }
    return std::nullopt;
}

std::vector<AbsentDevice> OpenSet::absent_devices() const {
    std::vector<AbsentDevice> absent;
    for (Inode inode = 0; inode < uuids_.size(); ++inode) {
        const UuidEntry& entry = uuids_[inode];
        const bool backing = !entry.is_free() && !entry.flash_only();
        const auto same = [&](const auto& volume) { return volume->uuid() == entry.uuid; };
        if (!backing || entry.uuid == ondisk::kInvalidatedUuid) continue;
        if (std::ranges::any_of(volumes_, same)) continue;
        absent.push_back({entry.uuid, label_text(entry.label), table_.dirty_sectors(inode)});
    }
    return absent;
}

// The whole table to a new bucket; the old one is free once the journal points at the new one.
Task<Result<void>> OpenSet::write_uuids() {
    CO_TRY(const BucketIndex bucket, co_await allocator_.take_metadata(alloc::Use::uuid));
    io::Buffer bytes = io::Buffer::zeroed(geometry_.metadata_bytes());
    ondisk::encode_uuid_table(uuids_, bytes.span());
    const std::uint64_t sector = geometry_.bucket_start(bucket);
    CO_OK(co_await cache_.write(sector, bytes.span()));
    const ondisk::Ptr ptr = ondisk::Ptr::make(sector, table_.at(bucket).gen);
    journal_.set_uuid_bucket(
        ondisk::Key::pointer(ondisk::kPosZero, geometry_.metadata_sectors(), ptr));
    CO_OK(co_await journal_.flush(journal_.open_seq()));
    if (uuid_bucket_) allocator_.free_metadata(*uuid_bucket_, true);
    uuid_bucket_ = bucket;
    counters_.metadata_written_sectors += geometry_.metadata_sectors();
    co_return Result<void>{};
}

Task<Result<void>> OpenSet::change_label(Inode inode, std::string label) {
    co_await uuid_lock_.lock();
    const async::Mutex::Guard guard(uuid_lock_);
    uuids_[inode].label = label_bytes(label);
    co_return co_await write_uuids();
}

Result<void> OpenSet::check_label(const std::string& label, const ondisk::Uuid& self) const {
    const char* const problem = label.empty() ? nullptr : label_problem(label);
    if (problem != nullptr) return fail(Errc::invalid, problem);
    if (owner_of_label(uuids_, label, self) != nullptr) {
        return fail(Errc::busy, "another volume of the set has this label");
    }
    return {};
}

CachedVolume& OpenSet::add_volume(std::unique_ptr<CachedVolume> volume) {
    volumes_.push_back(std::move(volume));
    volume_list_.push_back(volumes_.back().get());
    if (!options_.read_only) volumes_.back()->run(volume_tasks_);
    return *volumes_.back();
}

void OpenSet::add_flash_volumes() {
    for (Inode i = 0; i < uuids_.size(); ++i) {
        const UuidEntry& entry = uuids_[i];
        if (entry.is_free() || !entry.flash_only()) continue;
        const std::string label = label_text(entry.label);
        VolumeIdentity identity{i, entry.uuid, volume_name(uuids_, label, i, entry.uuid), label,
                                entry.sectors};
        add_volume(
            std::make_unique<CachedVolume>(services_, std::move(identity), nullptr, nullptr, true));
    }
}

// The entry of a device that joins; durable when it returns.
Task<Result<void>> OpenSet::record_entry(const Placement& placement, const Superblock& superblock) {
    const std::uint32_t now = env_.clock.wall_seconds();
    if (placement.old_entry) {
        uuids_[*placement.old_entry].uuid = ondisk::kInvalidatedUuid;
        uuids_[*placement.old_entry].invalidated = now;
    }
    UuidEntry entry;
    entry.uuid = superblock.uuid;
    entry.label = superblock.label;
    entry.first_reg = entry.last_reg = now;
    uuids_[placement.inode] = entry;
    CO_OK(co_await write_uuids());
    if (placement.old_entry) volume_tasks_.spawn(drop_orphans());
    co_return Result<void>{};
}

Task<Result<void>> OpenSet::enter(const Placement& placement, Superblock& superblock,
                                  io::BlockDevice& device) {
    if (!placement.new_entry) {
        // Written with the next change of the table.
        uuids_[placement.inode].last_reg = env_.clock.wall_seconds();
        co_return Result<void>{};
    }
    const bool early = options_.mutations.has(Mutation::superblock_before_uuid);
    if (!early) {
        CO_OK(co_await record_entry(placement, superblock));
    }
    superblock.set_uuid = superblock_.set_uuid;
    superblock.set_state(BackingState::clean);
    io::Buffer buffer(ondisk::kSuperblockBytes);
    const auto bytes = ondisk::encode_superblock(superblock);
    std::ranges::copy(bytes, buffer.data());
    CO_OK(co_await device.write(ondisk::kSuperblockSector, buffer.span(), true));
    if (early) {
        CO_OK(co_await record_entry(placement, superblock));
    }
    co_return Result<void>{};
}

Task<Result<SetVolume*>> OpenSet::add_backing(io::BlockDevice& device, AttachMode mode,
                                              Report& report) {
    co_await uuid_lock_.lock();
    const async::Mutex::Guard guard(uuid_lock_);
    if (stopped_) co_return fail(Errc::stopped, "the set is stopping");
    io::Buffer bytes(ondisk::kSuperblockBytes);
    const Result<void> read = co_await device.read(ondisk::kSuperblockSector, bytes.span());
    if (!read) {
        report.refusal = fmt::format("{}: the superblock cannot be read", device.name());
        co_return tl::unexpected(read.error());
    }
    CO_TRY(Superblock superblock, check_backing(bytes.span(), device, report));
    CO_TRY(Placement placement, place(superblock, device.name(), mode, report));
    const bool trusting = options_.mutations.has(Mutation::attach_without_flush);
    if (placement.attach && !options_.read_only && !trusting) {
        // Whoever had the device before us may have left unflushed writes, which a fill must not
        // trust.
        const Result<void> flushed = co_await device.flush();
        if (!flushed) {
            report.refusal = fmt::format("{}: the device cannot be flushed", device.name());
            co_return tl::unexpected(flushed.error());
        }
    }
    if (placement.attach && !placement.new_entry) {
        CO_OK(co_await check_size(placement.inode, device, report));
    }
    if (placement.attach) {
        const Result<void> entered = co_await enter(placement, superblock, device);
        if (!entered) {
            report.refusal =
                fmt::format("{}: attaching failed: {}", device.name(), entered.error().what);
            co_return tl::unexpected(entered.error());
        }
    } else {
        report.notes.push_back(
            fmt::format("{}: state {}: runs without a cache{}", device.name(),
                        ondisk::name_of(superblock.state()),
                        options_.read_only ? "" : "; to cache it: ubcache attach, serve --attach"));
    }
    const std::string label = label_text(superblock.label);
    VolumeIdentity identity{placement.inode, superblock.uuid, {}, label, 0};
    identity.name = placement.attach ? volume_name(uuids_, label, placement.inode, superblock.uuid)
                                     : stranger_name(superblock.uuid);
    const UuidEntry* const twin = owner_of_label(uuids_, label, superblock.uuid);
    if (twin != nullptr && placement.attach) {
        report.notes.push_back(
            fmt::format("{}: its label '{}' is also that of {}: it is served as "
                        "{}",
                        device.name(), label, twin->uuid.to_string(), identity.name));
    }
    CachedVolume& volume = add_volume(std::make_unique<CachedVolume>(
        services_, std::move(identity), &device, &superblock, placement.attach));
    co_return static_cast<SetVolume*>(&volume);
}

Task<Result<SetVolume*>> OpenSet::create_flash_volume(std::uint64_t sectors, std::string label) {
    co_await uuid_lock_.lock();
    const async::Mutex::Guard guard(uuid_lock_);
    if (stopped_) co_return fail(Errc::stopped, "the set is stopping");
    if (options_.read_only) co_return fail(Errc::read_only, "the set is open for reading only");
    if (sectors == 0) co_return fail(Errc::invalid, "a volume needs a size");
    const ondisk::Uuid nobody;
    const Result<void> usable = check_label(label, nobody);
    CO_OK(usable);
    const std::optional<Inode> free = find_uuid(ondisk::Uuid{});
    if (!free) co_return fail(Errc::no_space, "the set's uuid table is full");
    UuidEntry entry;
    for (std::uint8_t& byte : entry.uuid.bytes) byte = static_cast<std::uint8_t>(env_.rng.next());
    entry.label = label_bytes(label);
    entry.first_reg = entry.last_reg = env_.clock.wall_seconds();
    entry.flags = UuidEntry::kFlashOnly;
    entry.sectors =
        div_ceil<std::uint64_t>(sectors, geometry_.block_sectors) * geometry_.block_sectors;
    uuids_[*free] = entry;
    const Result<void> written = co_await write_uuids();
    if (!written) {
        uuids_[*free] = UuidEntry{};
        co_return tl::unexpected(written.error());
    }
    VolumeIdentity identity{*free, entry.uuid, volume_name(uuids_, label, *free, entry.uuid), label,
                            entry.sectors};
    CachedVolume& volume = add_volume(
        std::make_unique<CachedVolume>(services_, std::move(identity), nullptr, nullptr, true));
    co_return static_cast<SetVolume*>(&volume);
}

Task<Result<void>> OpenSet::forget(CachedVolume& volume) {
    CO_OK(co_await volume.backing()->leave_set());
    co_await uuid_lock_.lock();
    const async::Mutex::Guard guard(uuid_lock_);
    UuidEntry& entry = uuids_[volume.inode()];
    entry.uuid = ondisk::kInvalidatedUuid;
    entry.invalidated = env_.clock.wall_seconds();
    co_return co_await write_uuids();
}

Result<CachedVolume*> OpenSet::own(SetVolume& volume) const {
    const auto it =
        std::ranges::find_if(volumes_, [&](const auto& v) { return v.get() == &volume; });
    if (it == volumes_.end()) return fail(Errc::not_found, "no such volume in this set");
    if (options_.read_only) return fail(Errc::read_only, "the set is open for reading only");
    return it->get();
}

Task<Result<Inode>> OpenSet::enter_again(const Placement& placement, Backing& backing) {
    CO_OK(co_await record_entry(placement, backing.superblock()));
    CO_OK(co_await backing.enter_set(superblock_.set_uuid));
    co_return placement.inode;
}

Task<Result<void>> OpenSet::reattach(SetVolume& volume, Report& report) {
    CO_TRY(CachedVolume* const cached, own(volume));
    co_await uuid_lock_.lock();
    const async::Mutex::Guard guard(uuid_lock_);
    if (stopped_) co_return fail(Errc::stopped, "the set is stopping");
    if (!failure().empty()) co_return fail(Errc::gone, "the cache set has failed");
    if (cached->attached()) co_return fail(Errc::busy, "the volume is attached already");
    Backing& backing = *cached->backing();
    CO_TRY(const Placement placement,
           place(backing.superblock(), backing.device().name(), AttachMode::attach, report));
    CO_OK(co_await backing.flush());
    CO_OK(co_await cached->join(enter_again(placement, backing)));
    const std::string name = volume_name(uuids_, cached->label(), placement.inode, cached->uuid());
    if (name != cached->name()) {
        report.notes.push_back(
            fmt::format("{}: served as {} until the set stops, as {} from then "
                        "on",
                        backing.device().name(), cached->name(), name));
    }
    co_return Result<void>{};
}

Task<Result<void>> OpenSet::detach(SetVolume& volume) {
    CO_TRY(CachedVolume* const owned, own(volume));
    CachedVolume& cached = *owned;
    const CachedVolume::InFlight counted(cached);
    CO_OK(co_await cached.begin_detach());
    Result<void> done;
    for (int attempt = 0; attempt < 3; ++attempt) {
        const Result<void> cut = co_await cached.cut_off(forget(cached));
        done = cut;
        if (done || done.error().code != Errc::busy) break;
        CO_OK(co_await cached.write_back_all());  // a write was under way when we began
    }
    if (!done) cached.give_up_detach();
    co_return done;
}

}  // namespace uc::core
