// Who belongs to the set: attaching and detaching backing devices, flash-only volumes, the uuid
// table (format sections 5.9, 7.9, 7.11, 9.3).
//
// Attach:  uuid table with the new entry durable  ->  backing superblock names the set
// Detach:  everything written back and flushed    ->  backing superblock "none", no set
//                                                 ->  uuid table entry invalidated
// A crash in between leaves a device that is free, or an entry that nobody claims; both attach
// anew.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/labels.h"
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

std::string OpenSet::next_name(const std::string& label) const {
    const auto taken = [this](const std::string& name) {
        return std::ranges::any_of(volumes_, [&](const auto& v) { return v->name() == name; });
    };
    if (!label.empty() && !taken(label) && label.find('/') == std::string::npos) return label;
    for (unsigned n = 0;; ++n) {
        std::string name = fmt::format("bcache{}", n);
        if (!taken(name)) return name;
    }
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
        VolumeIdentity identity{i, entry.uuid, next_name(label), label, entry.sectors};
        add_volume(
            std::make_unique<CachedVolume>(services_, std::move(identity), nullptr, nullptr, true));
    }
}

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
    if (std::ranges::any_of(volumes_, same)) {
        return refuse("a device with this uuid is attached already",
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
        placement.attach = true;
        placement.inode = *known;
        return placement;
    }
    if (state == BackingState::dirty) {
        return refuse("it is dirty, but the set does not know it: its newest data are elsewhere",
                      Error{Errc::not_found, 0, "uuid not in the set"});
    }
    if (options_.read_only) return placement;
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

Task<Result<void>> OpenSet::enter(Placement& placement, Superblock& superblock,
                                  io::BlockDevice& device) {
    const std::uint32_t now = env_.clock.wall_seconds();
    if (!placement.new_entry) {
        uuids_[placement.inode].last_reg = now;  // written with the next change of the table
        co_return Result<void>{};
    }
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
    superblock.set_uuid = superblock_.set_uuid;
    superblock.set_state(BackingState::clean);
    io::Buffer buffer(ondisk::kSuperblockBytes);
    const auto bytes = ondisk::encode_superblock(superblock);
    std::ranges::copy(bytes, buffer.data());
    co_return co_await device.write(ondisk::kSuperblockSector, buffer.span(), true);
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
    if (placement.attach && !options_.read_only) {
        // Whoever had the device before us may have left unflushed writes, which a fill must not
        // trust.
        const Result<void> flushed = co_await device.flush();
        if (!flushed) {
            report.refusal = fmt::format("{}: the device cannot be flushed", device.name());
            co_return tl::unexpected(flushed.error());
        }
    }
    if (placement.attach) {
        const Result<void> entered = co_await enter(placement, superblock, device);
        if (!entered) {
            report.refusal =
                fmt::format("{}: attaching failed: {}", device.name(), entered.error().what);
            co_return tl::unexpected(entered.error());
        }
    } else {
        report.notes.push_back(fmt::format("{}: state {}: runs without a cache", device.name(),
                                           ondisk::name_of(superblock.state())));
    }
    const std::string label = label_text(superblock.label);
    VolumeIdentity identity{placement.inode, superblock.uuid, next_name(label), label, 0};
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
    if (label.size() > kMaxLabel)
        co_return fail(Errc::invalid, "a label has at most 31 characters");
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
    VolumeIdentity identity{*free, entry.uuid, next_name(label), label, entry.sectors};
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

Task<Result<void>> OpenSet::detach(SetVolume& volume) {
    const auto it =
        std::ranges::find_if(volumes_, [&](const auto& v) { return v.get() == &volume; });
    if (it == volumes_.end()) co_return fail(Errc::not_found, "no such volume in this set");
    if (options_.read_only) co_return fail(Errc::read_only, "the set is open for reading only");
    CachedVolume& cached = **it;
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
