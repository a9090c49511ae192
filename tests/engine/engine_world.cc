#include "engine_world.h"

#include <algorithm>
#include <cstring>

#include "core/labels.h"

namespace uc::test {

io::Buffer pattern(std::uint64_t sector, std::uint64_t sectors, unsigned version) {
    io::Buffer data(sectors * kSectorBytes);
    for (std::uint64_t i = 0; i < sectors; ++i) {
        const std::uint64_t words[2] = {sector + i, version};
        for (std::size_t at = 0; at < kSectorBytes; at += sizeof words) {
            std::memcpy(data.data() + i * kSectorBytes + at, words, sizeof words);
        }
    }
    return data;
}

EngineWorld::EngineWorld(CacheShape what) : shape(what) {
    cache = &add_disk("cache", shape.nbuckets * shape.bucket_sectors, false);
    set_uuid = draw_uuid();
    ondisk::Superblock sb;
    sb.version = 0;
    sb.uuid = draw_uuid();
    sb.set_uuid = set_uuid;
    sb.set_replacement(shape.replacement);
    sb.nbuckets_or_offset = shape.nbuckets;
    sb.block_size = static_cast<std::uint16_t>(shape.block_sectors);
    sb.bucket_size_raw = static_cast<std::uint16_t>(shape.bucket_sectors);
    sb.nr_in_set = 1;
    sb.first_bucket =
        static_cast<std::uint16_t>(ondisk::Geometry::first_bucket_for(shape.bucket_sectors));
    cache->disk.poke(ondisk::kSuperblockSector, ondisk::encode_superblock(sb));
}

EngineWorld::~EngineWorld() {
    world.crash(sim::CrashKind::process_death);
    set.reset();
}

ondisk::Uuid EngineWorld::draw_uuid() {
    ondisk::Uuid uuid;
    for (auto& byte : uuid.bytes) byte = static_cast<std::uint8_t>(rng_.next() | 1);
    return uuid;
}

WatchedDevice& EngineWorld::add_disk(const std::string& name, std::uint64_t sectors, bool discard) {
    sim::SimDiskOptions options;
    options.name = name;
    options.sectors = sectors;
    options.supports_discard = discard;
    sim::SimDisk& disk = world.add_disk(options);
    devices_.push_back(std::make_unique<WatchedDevice>(disk));
    return *devices_.back();
}

WatchedDevice& EngineWorld::put(const ondisk::Superblock& superblock, std::uint64_t sectors) {
    WatchedDevice& device = add_disk("back" + std::to_string(devices_.size()), sectors, false);
    device.disk.poke(ondisk::kSuperblockSector, ondisk::encode_superblock(superblock));
    return device;
}

WatchedDevice& EngineWorld::format(BackingShape what) {
    ondisk::Superblock sb;
    sb.version = 1;
    sb.uuid = draw_uuid();
    sb.set_cache_mode(what.mode);
    sb.block_size = what.block_sectors;
    sb.label = core::label_bytes(what.label);
    WatchedDevice& device = add_disk("back" + std::to_string(devices_.size()),
                                     what.sectors + ondisk::kDefaultDataOffset, what.discard);
    device.disk.poke(ondisk::kSuperblockSector, ondisk::encode_superblock(sb));
    return device;
}

Result<void> EngineWorld::open(core::SetOptions options) {
    report = {};
    const core::Env env{world.executor(), world.clock(), rng_};
    auto opened = run(core::CacheSet::open(env, *cache, options, report));
    if (!opened) return tl::unexpected(opened.error());
    set = std::move(*opened);
    return {};
}

Result<SetVolume*> EngineWorld::add(WatchedDevice& backing, AttachMode mode) {
    auto added = run(set->add_backing(backing, mode, report));
    if (added) {
        (*added)->options().writeback_running = false;
        (*added)->options_changed();
    }
    return added;
}

SetVolume& EngineWorld::start(WatchedDevice& backing, core::SetOptions options) {
    const Result<void> opened = open(options);
    EXPECT_TRUE(opened) << report.refusal;
    const Result<SetVolume*> added = add(backing);
    EXPECT_TRUE(added) << report.refusal;
    return **added;
}

Result<void> EngineWorld::stop() {
    const Result<void> stopped = run(set->stop());
    set.reset();
    return stopped;
}

SetVolume& EngineWorld::restart(WatchedDevice& backing, core::SetOptions options) {
    const Result<void> stopped = stop();
    EXPECT_TRUE(stopped) << stopped.error().what;
    EXPECT_EQ(problems(), std::vector<std::string>());
    return start(backing, options);
}

void EngineWorld::crash(sim::CrashKind kind) {
    world.crash(kind);
    set.reset();
}

Result<void> EngineWorld::write(SetVolume& volume, std::uint64_t sector, std::uint64_t sectors,
                                unsigned version, core::WriteFlags flags) {
    const io::Buffer data = pattern(sector, sectors, version);
    return run(volume.write(sector, data.span(), flags));
}

int EngineWorld::read(SetVolume& volume, std::uint64_t sector, std::uint64_t sectors,
                      unsigned version) {
    io::Buffer data(sectors * kSectorBytes);
    const Result<void> done = run(volume.read(sector, data.span()));
    if (!done) {
        ADD_FAILURE() << "read of sector " << sector << ": " << done.error().what;
        return -1;
    }
    const io::Buffer wanted = pattern(sector, sectors, version);
    if (std::ranges::equal(data.span(), wanted.span())) return static_cast<int>(version);
    const bool zero =
        std::ranges::all_of(data.span(), [](std::byte b) { return b == std::byte{}; });
    return zero ? 0 : -1;
}

Result<void> EngineWorld::read_result(SetVolume& volume, std::uint64_t sector,
                                      std::uint64_t sectors) {
    io::Buffer data(sectors * kSectorBytes);
    return run(volume.read(sector, data.span()));
}

bool EngineWorld::on_backing(const WatchedDevice& backing, std::uint64_t sector,
                             std::uint64_t sectors, unsigned version, bool durable) {
    io::Buffer data(sectors * kSectorBytes);
    const std::uint64_t at = sector + superblock_of(backing).data_offset();
    if (durable) {
        backing.disk.peek_durable(at, data.span());
    } else {
        backing.disk.peek(at, data.span());
    }
    const io::Buffer wanted = pattern(sector, sectors, version);
    return std::ranges::equal(data.span(), wanted.span());
}

ondisk::Superblock EngineWorld::superblock_of(const WatchedDevice& device) const {
    std::array<std::byte, ondisk::kSuperblockBytes> bytes;
    device.disk.peek_durable(ondisk::kSuperblockSector, bytes);
    return ondisk::parse_superblock(bytes);
}

std::vector<std::string> EngineWorld::problems() const {
    const DiskBytes bytes(cache->disk);
    return sim::DiskChecker(bytes).problems();
}

std::vector<ondisk::UuidEntry> EngineWorld::uuid_table() const {
    const DiskBytes bytes(cache->disk);
    return sim::DiskChecker(bytes).uuids();
}

}  // namespace uc::test
