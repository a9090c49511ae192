#include "sim/disk_checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "ondisk/bset.h"
#include "ondisk/jset.h"
#include "ondisk/prio_set.h"

namespace uc::sim {
namespace {

using ondisk::Key;
using ondisk::Ptr;

class MemoryBytes final : public ByteSource {
public:
    explicit MemoryBytes(std::uint64_t sectors) : data(sectors * kSectorBytes) {}
    bool read(std::uint64_t offset, std::span<std::byte> out) const override {
        if (offset + out.size() > data.size()) return false;
        std::memcpy(out.data(), data.data() + offset, out.size());
        return true;
    }
    std::uint64_t bytes() const override { return data.size(); }
    std::span<std::byte> at(std::uint64_t sector, std::uint64_t sectors) {
        return std::span(data).subspan(sector * kSectorBytes, sectors * kSectorBytes);
    }

    std::vector<std::byte> data;
};

// A set composed by hand: one backing device with index 0, a root leaf, one journal entry.
class DiskCheckerTest : public ::testing::Test {
protected:
    static constexpr std::uint32_t kBucket = 16;
    static constexpr BucketIndex kPrio = 20;
    static constexpr BucketIndex kUuid = 21;
    static constexpr BucketIndex kRoot = 22;
    static constexpr BucketIndex kData = 30;

    DiskCheckerTest() : cache(600 * kBucket), backing(4096) {
        sb.version = 3;
        sb.uuid.bytes[0] = 1;
        sb.set_uuid.bytes[0] = 2;
        sb.set_sync(true);
        sb.nbuckets_or_offset = 600;
        sb.block_size = 1;
        sb.bucket_size_raw = kBucket;
        sb.nr_in_set = 1;
        sb.first_bucket = 2;
        sb.keys = 4;
        for (std::uint64_t i = 0; i < 4; ++i) sb.d[i] = 2 + i;
        entry.seq = entry.last_seq = 1;
        entry.prio_bucket[0] = kPrio;
        entry.uuid_bucket = Key::pointer(ondisk::kPosZero, kBucket, pointer(kUuid));
        entry.btree_root = Key::pointer(ondisk::kPosMax, kBucket, pointer(kRoot));
        uuids.resize(1);
        uuids[0].uuid.bytes[0] = 9;
    }
    static Ptr pointer(BucketIndex bucket, std::uint64_t offset = 0, std::uint8_t gen = 1) {
        return Ptr::make(bucket * kBucket + offset, Gen(gen));
    }
    static Key extent(std::uint64_t start, std::uint32_t size, Ptr ptr, bool dirty = true) {
        return Key::extent(0, start + size, size, ptr, dirty);
    }
    void fill(MemoryBytes& bytes, std::uint64_t sector, std::uint64_t sectors, int value) {
        const auto range = bytes.at(sector, sectors);
        std::fill(range.begin(), range.end(), static_cast<std::byte>(value));
    }
    DiskChecker check() {
        const auto super = ondisk::encode_superblock(sb);
        std::copy(super.begin(), super.end(), cache.at(8, 8).begin());
        const ondisk::Geometry geometry = sb.geometry();
        const std::uint64_t magic = sb.set_uuid.magic();
        const auto prios = cache.at(kPrio * kBucket, kBucket);
        for (ondisk::PrioEntry& one : ondisk::prio_entries(prios, geometry)) one.gen = 1;
        ondisk::seal_prio_set(prios, 1, 0, magic);
        ondisk::encode_uuid_table(uuids, cache.at(kUuid * kBucket, kBucket));
        ondisk::encode_bset(leaf, 77, magic, entry.btree_root.ptr().raw(),
                            cache.at(kRoot * kBucket, 1));
        ondisk::encode_jset(entry, magic, cache.at(slot * kBucket, 1));
        return DiskChecker(cache);
    }
    int content(const DiskChecker& checker, std::uint64_t sector) {
        std::vector<std::byte> out(kSectorBytes);
        EXPECT_TRUE(checker.read_device(0, &backing, 16, sector, out));
        return static_cast<int>(out[0]);
    }
    std::string first_problem() {
        const DiskChecker checker = check();
        return checker.problems().empty() ? "" : checker.problems().front();
    }

    MemoryBytes cache;
    MemoryBytes backing;
    ondisk::Superblock sb;
    ondisk::Jset entry;
    std::vector<ondisk::UuidEntry> uuids;
    std::vector<Key> leaf;
    std::uint64_t slot = 3;
};

TEST_F(DiskCheckerTest, ContentComesFromTheNewestKeyAndOtherwiseFromBacking) {
    leaf.push_back(extent(100, 8, pointer(kData)));
    entry.keys.push_back(extent(102, 2, pointer(kData, 8)));
    entry.keys.push_back(Key::invalidation(0, 106, 1));
    fill(backing, 100, 8, 5);
    fill(cache, kData * kBucket, 8, 6);
    fill(cache, kData * kBucket + 8, 2, 7);
    const DiskChecker checker = check();
    EXPECT_TRUE(checker.problems().empty()) << checker.problems().front();
    EXPECT_EQ(content(checker, 100 - 16), 6);
    EXPECT_EQ(content(checker, 102 - 16), 7);
    EXPECT_EQ(content(checker, 105 - 16), 5) << "the invalidation hides the older extent";
    EXPECT_EQ(content(checker, 107 - 16), 6);
    EXPECT_EQ(checker.parts(0).size(), 4U);
}

TEST_F(DiskCheckerTest, StaleExtentHidesWhatItCovers) {
    leaf.push_back(extent(100, 8, pointer(kData)));
    entry.keys.push_back(extent(100, 4, pointer(kData + 1, 0, 0), false));
    fill(cache, kData * kBucket, 8, 6);
    const DiskChecker checker = check();
    EXPECT_EQ(content(checker, 100 - 16), 0);
    EXPECT_EQ(content(checker, 104 - 16), 6);
}

TEST_F(DiskCheckerTest, PointerNewerThanTheTableIsValid) {
    leaf.push_back(extent(100, 8, pointer(kData, 0, 3)));
    fill(cache, kData * kBucket, 8, 6);
    EXPECT_EQ(content(check(), 100 - 16), 6);
}

TEST_F(DiskCheckerTest, ReportsStaleDirtyPointers) {
    leaf.push_back(extent(100, 8, pointer(kData, 0, 0)));
    EXPECT_EQ(first_problem().find("stale dirty pointer"), 0U);
}

TEST_F(DiskCheckerTest, ReportsABucketWithTwoUses) {
    leaf.push_back(extent(100, 8, pointer(kUuid, 8)));
    EXPECT_NE(first_problem().find("two uses"), std::string::npos);
}

TEST_F(DiskCheckerTest, ReportsATornNode) {
    leaf.push_back(extent(100, 8, pointer(kData)));
    check();
    cache.at(kRoot * kBucket, 1)[40] ^= std::byte{1};
    EXPECT_FALSE(DiskChecker(cache).problems().empty());
}

TEST_F(DiskCheckerTest, ReportsMissingJournalEntries) {
    entry.seq = 3;
    EXPECT_NE(first_problem().find("missing"), std::string::npos);
}

TEST_F(DiskCheckerTest, ReportsExtentsOfUnknownDevices) {
    leaf.push_back(Key::extent(5, 108, 8, pointer(kData), false));
    EXPECT_NE(first_problem().find("unknown device"), std::string::npos);
}

TEST_F(DiskCheckerTest, BlankSetIsNotJudged) {
    sb.set_sync(false);
    const DiskChecker checker = check();
    EXPECT_TRUE(checker.blank());
    EXPECT_TRUE(checker.problems().empty());
}

}  // namespace
}  // namespace uc::sim
