// Superblocks of every version, with garbage where old versions have nothing.
#include <algorithm>

#include "engine_world.h"

namespace uc::test {
namespace {

class Versions : public testing::Test {
protected:
    // Bytes that mean nothing in the superblock as it is: the pad, the journal list beyond `keys`,
    // and what lies behind it. (The feature words have meaning in version 5.)
    static std::vector<std::pair<std::size_t, std::size_t>> pads(const ondisk::Superblock& sb) {
        return {{144, 184}, {208 + std::size_t{8} * sb.keys, 2256}, {2258, 4096}};
    }
    static ondisk::Superblock spoil(ondisk::Superblock sb) {
        for (const auto& [from, to] : pads(sb)) {
            std::fill(sb.raw.begin() + static_cast<std::ptrdiff_t>(from),
                      sb.raw.begin() + static_cast<std::ptrdiff_t>(to), std::byte{0xa5});
        }
        return sb;
    }
    ondisk::Superblock cache_superblock(std::uint64_t version) {
        ondisk::Superblock sb = world.superblock_of(*world.cache);
        sb.version = version;
        // An old superblock may have anything in the words that version 5 gave a meaning.
        const std::uint64_t features = version < 5 ? ~0ull : 0;
        sb.feature_compat = sb.feature_incompat = sb.feature_ro_compat = features;
        return spoil(sb);
    }
    WatchedDevice& backing(std::uint64_t version, std::uint64_t offset) {
        ondisk::Superblock sb;
        sb.version = version;
        for (std::uint8_t& byte : sb.uuid.bytes) byte = static_cast<std::uint8_t>(version + 1);
        sb.block_size = 8;
        sb.nbuckets_or_offset = offset;
        sb.bucket_size_raw = 1024;
        sb.set_cache_mode(CacheMode::writeback);
        sb.feature_compat = sb.feature_incompat = sb.feature_ro_compat = ~0ull;
        return world.put(spoil(sb), (1 << 17) + 4096);
    }
    void put(const ondisk::Superblock& sb) {
        world.cache->disk.poke(ondisk::kSuperblockSector, ondisk::encode_superblock(sb));
    }

    EngineWorld world;
};

TEST_F(Versions, CacheOfVersions0And3And5ServesWithGarbageInItsPad) {
    for (const std::uint64_t version : {0, 3, 5}) {
        put(cache_superblock(version));
        WatchedDevice& device = world.format();
        SetVolume& volume = world.start(device);
        ASSERT_TRUE(world.write(volume, 0, 64, 1));
        ASSERT_TRUE(world.flush(volume));
        world.crash(sim::CrashKind::power_cut);
        SetVolume& again = world.start(device);
        EXPECT_EQ(world.read(again, 0, 64, 1), 1);
        ASSERT_TRUE(world.stop());
        EXPECT_EQ(world.problems(), std::vector<std::string>());
        const ondisk::Superblock sb = world.superblock_of(*world.cache);
        EXPECT_EQ(sb.version, std::max<std::uint64_t>(version, 3));
        for (const auto& [from, to] : pads(sb)) {
            const auto kept = [](std::byte b) { return b == std::byte{0xa5}; };
            EXPECT_TRUE(std::all_of(sb.raw.begin() + static_cast<std::ptrdiff_t>(from),
                                    sb.raw.begin() + static_cast<std::ptrdiff_t>(to), kept));
        }
    }
}

TEST_F(Versions, BackingDevicesOfVersions1And4And6HaveTheirDataWhereTheyShould) {
    const std::vector<std::pair<std::uint64_t, std::uint64_t>> kinds{{1, 777}, {4, 2048}, {6, 24}};
    for (const auto& [version, offset] : kinds) {
        WatchedDevice& device = backing(version, offset);
        SetVolume& volume = world.start(device);
        const std::uint64_t begins = version == 1 ? 16 : offset;
        EXPECT_EQ(volume.size_sectors(), device.size_sectors() - begins);
        ASSERT_TRUE(world.write(volume, 0, 64, 1));
        ASSERT_TRUE(world.run(volume.write_back_all()));
        EXPECT_TRUE(world.on_backing(device, 0, 64, 1, true));
        io::Buffer data(64 * kSectorBytes);
        device.disk.peek(begins, data.span());
        EXPECT_TRUE(std::ranges::equal(data.span(), pattern(0, 64, 1).span()));
        EXPECT_EQ(world.superblock_of(device).version, version);
        ASSERT_TRUE(world.stop());
    }
}

TEST_F(Versions, UnknownFeaturesAndVersionsAreRefusedWithoutAChange) {
    const auto refused = [&](const ondisk::Superblock& sb, const char* why) {
        put(sb);
        world.cache->writes = 0;
        EXPECT_FALSE(world.open());
        EXPECT_NE(world.report.refusal.find(why), std::string::npos) << world.report.refusal;
        EXPECT_EQ(world.cache->writes, 0u);
    };
    ondisk::Superblock sb = cache_superblock(5);
    sb.feature_incompat = 4;
    refused(sb, "Unsupported incompatible feature");
    sb = cache_superblock(2);
    refused(sb, "Unsupported superblock version");
    sb.version = 7;
    refused(sb, "Unsupported superblock version");
}

}  // namespace
}  // namespace uc::test
