// Copies of the kernel's sets with one structure damaged each. Opening is refused with one line
// that names the structure, the place and the reason, and changes no byte; only what the journal
// still holds may be missing, and then nothing is missing afterwards.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "anatomy.h"
#include "engine_world.h"
#include "golden_image.h"
#include "golden_set.h"

namespace uc::golden {
namespace {

using ondisk::Key;

class DamagedSet : public testing::Test {
protected:
    void SetUp() override {
        if (!can_unpack()) GTEST_SKIP() << "no zstd";
        if (!world.usable()) GTEST_SKIP() << "no io_uring";
    }

    void unpack(const std::string& name) {
        golden.emplace(name);
        ASSERT_EQ(golden->problem(), "");
        file.emplace(golden->cache());
        anatomy.emplace(*file);
        ASSERT_FALSE(anatomy->nodes().empty());
    }

    // Opens the set in both ways; neither may go well, nor leave a trace. The reason.
    std::string refusal() {
        const std::string before = sha256_of(golden->cache());
        std::string reason;
        for (const bool read_only : {true, false}) {
            const Result<void> opened = world.open(golden->cache(), read_only);
            EXPECT_FALSE(opened);
            if (opened) return "";
            EXPECT_EQ(opened.error().code, Errc::corrupt);
            EXPECT_TRUE(reason.empty() || reason == world.report().refusal);
            reason = world.report().refusal;
        }
        EXPECT_EQ(sha256_of(golden->cache()), before);
        return reason;
    }
    void expect_refusal(const std::string& reason) {
        EXPECT_EQ(refusal(), golden->cache().string() + ": " + reason);
    }
    // Says what it has found; serves; and the table on disk is good again.
    void expect_repair(const std::string& damage) {
        ASSERT_TRUE(world.open(golden->cache(), true)) << world.report().refusal;
        EXPECT_EQ(world.set().stats().prio_tables_rebuilt, 1u);
        ASSERT_FALSE(world.report().notes.empty());
        EXPECT_EQ(world.report().notes.front(),
                  damage +
                      ": rebuilt from the index; all dirty data is kept, the clean data in "
                      "the cache is dropped");
        EXPECT_TRUE(world.close());
        expect_service();
        ASSERT_TRUE(world.open(golden->cache(), true));
        EXPECT_EQ(world.set().stats().prio_tables_rebuilt, 0u);
        EXPECT_TRUE(world.close());
    }

    // The set serves what the kernel read, again after a stop, and is then sound.
    void expect_service() {
        for (int round = 0; round < 2; ++round) {
            const Result<void> opened = world.open(golden->cache());
            ASSERT_TRUE(opened) << world.report().refusal;
            const LogicalDevice& device = golden->devices().front();
            const auto added = world.add(device.image);
            ASSERT_TRUE(added) << world.report().refusal;
            EXPECT_EQ(world.content(**added), device.sha256);
            EXPECT_TRUE(world.close());
            const FileBytes cache(golden->cache());
            EXPECT_EQ(sim::DiskChecker(cache).problems(), std::vector<std::string>());
        }
    }

    // A leaf whose last set is an append of several blocks, and whose keys are all in the journal
    // still, or are not.
    const PlacedNode* appended_leaf(bool in_journal) const {
        std::vector<Key> journal;
        for (const PlacedEntry& entry : anatomy->replayed()) {
            journal.insert(journal.end(), entry.jset.keys.begin(), entry.jset.keys.end());
        }
        const auto held = [&](const Key& key) { return std::ranges::count(journal, key) != 0; };
        for (const PlacedNode& node : anatomy->nodes()) {
            const ondisk::Bset& last = node.image.sets.back();
            if (node.level != 0 || last.block == 0 || last.blocks < 2) continue;
            if (std::ranges::all_of(last.keys, held) == in_journal) return &node;
        }
        return nullptr;
    }

    // Takes the last block of the last set away, as a power cut during its append would.
    void tear_last_set(const PlacedNode& leaf) {
        const ondisk::Bset& set = leaf.image.sets.back();
        ASSERT_GT(set.blocks, 1u);
        const std::uint64_t sector = anatomy->sector_of_set(leaf, leaf.image.sets.size() - 1);
        anatomy->clear(sector + set.blocks - 1);
    }

    std::optional<GoldenSet> golden;
    std::optional<FileBytes> file;
    std::optional<Anatomy> anatomy;
    EngineWorld world;
};

TEST_F(DamagedSet, WithAWrongChecksumOfTheSuperblockIsRefused) {
    ASSERT_NO_FATAL_FAILURE(unpack("writeback-dirty"));
    anatomy->flip(ondisk::kSuperblockSector, 100);
    expect_refusal("superblock: Bad checksum");
}

TEST_F(DamagedSet, WithoutAnyJournalEntryIsRefused) {
    ASSERT_NO_FATAL_FAILURE(unpack("writeback-dirty"));
    for (const PlacedEntry& entry : anatomy->entries()) anatomy->flip(entry.sector, 100);
    expect_refusal("journal: no journal entries found");
}

TEST_F(DamagedSet, WithAMissingJournalEntryIsRefused) {
    ASSERT_NO_FATAL_FAILURE(unpack("btree-deep"));
    const std::vector<PlacedEntry> needed = anatomy->replayed();
    const BucketIndex slot = needed.front().bucket;
    ASSERT_NE(slot, anatomy->newest().bucket);
    JournalSeq first = 0;
    JournalSeq last = 0;
    for (const PlacedEntry& entry : needed) {
        if (entry.bucket != slot) continue;
        // A damaged entry ends its slot: those behind it are lost, too.
        if (first == 0) anatomy->flip(entry.sector, 100);
        if (first == 0) first = entry.jset.seq;
        last = entry.jset.seq;
    }
    expect_refusal(fmt::format("journal: journal entries {}-{} missing! (replaying {}-{})", first,
                               last, needed.front().jset.seq, anatomy->newest().jset.seq));
}

TEST_F(DamagedSet, WithADamagedPriorityTableServesOn) {
    for (const char* const set : {"writeback-dirty", "btree-deep", "writeback-unclean"}) {
        ASSERT_NO_FATAL_FAILURE(unpack(set));
        const std::uint64_t bucket = anatomy->newest().jset.prio_bucket[0];
        anatomy->flip(bucket * anatomy->geometry().bucket_sectors, 1000);
        expect_repair(
            fmt::format("priority table: bad csum reading priorities in bucket {}", bucket));
    }
}

TEST_F(DamagedSet, WithAZeroedPriorityTableServesOn) {
    ASSERT_NO_FATAL_FAILURE(unpack("writeback-dirty"));
    const std::uint64_t bucket = anatomy->newest().jset.prio_bucket[0];
    anatomy->clear(bucket * anatomy->geometry().bucket_sectors);
    expect_repair(fmt::format("priority table: bad csum reading priorities in bucket {}", bucket));
}

TEST_F(DamagedSet, WithPrioritiesInTheJournalServesOn) {
    ASSERT_NO_FATAL_FAILURE(unpack("writeback-dirty"));
    PlacedEntry newest = anatomy->newest();
    newest.jset.prio_bucket[0] = anatomy->geometry().first_bucket;
    anatomy->write(newest);
    expect_repair(fmt::format(
        "priority table: member 0 is said to be in bucket {}, which is not a usable bucket",
        anatomy->geometry().first_bucket));
}

TEST_F(DamagedSet, WithAnEmptyUuidTableIsRefusedAndSaysWhatIsThere) {
    ASSERT_NO_FATAL_FAILURE(unpack("writeback-dirty"));
    anatomy->clear(anatomy->newest().jset.uuid_bucket.ptr().sector());
    const std::string said = refusal();
    EXPECT_NE(said.find("entry 0, which has data in the cache, is empty"), said.npos) << said;
    EXPECT_NE(said.find("can be extracted: index 0: "), said.npos) << said;
}

TEST_F(DamagedSet, WithNonsenseInTheUuidTableIsRefusedAndSaysWhatIsThere) {
    ASSERT_NO_FATAL_FAILURE(unpack("writeback-dirty"));
    const std::uint64_t sector = anatomy->newest().jset.uuid_bucket.ptr().sector();
    anatomy->flip(sector, 63);  // the flags of entry 0
    std::string said = refusal();
    EXPECT_NE(said.find("entry 0 is nonsense"), said.npos) << said;
    EXPECT_NE(said.find("can be extracted: index 0: "), said.npos) << said;
    anatomy->flip(sector, 63);
    anatomy->flip(sector, 128 + 64);  // a size in entry 1, which is free
    said = refusal();
    EXPECT_NE(said.find("entry 1 is nonsense"), said.npos) << said;
}

TEST_F(DamagedSet, WithAUuidPointerBeyondTheDeviceIsRefused) {
    ASSERT_NO_FATAL_FAILURE(unpack("writeback-dirty"));
    PlacedEntry newest = anatomy->newest();
    newest.jset.uuid_bucket.set_ptr(ondisk::Ptr::make(std::uint64_t{1} << 40, Gen(1)));
    anatomy->write(newest);
    expect_refusal(fmt::format("journal entry {}: bad uuid pointer: pointer past end of device",
                               newest.jset.seq));
}

TEST_F(DamagedSet, WithADamagedRootIsRefused) {
    ASSERT_NO_FATAL_FAILURE(unpack("btree-deep"));
    const PlacedNode& root = anatomy->root();
    anatomy->flip(root.key.ptr().sector(), 50);
    expect_refusal(
        fmt::format("b-tree node of level 1: bad checksum at bucket {}, block 0", root.bucket));
}

TEST_F(DamagedSet, WithADamagedFirstSetOfALeafIsRefused) {
    ASSERT_NO_FATAL_FAILURE(unpack("btree-deep"));
    const PlacedNode* const leaf = anatomy->leaf(2);
    ASSERT_NE(leaf, nullptr);
    anatomy->flip(leaf->key.ptr().sector(), 50);
    expect_refusal(
        fmt::format("b-tree node of level 0: bad checksum at bucket {}, block 0", leaf->bucket));
}

TEST_F(DamagedSet, WithALostLastSetOfALeafThatTheJournalLacksIsRefused) {
    ASSERT_NO_FATAL_FAILURE(unpack("btree-deep"));
    const PlacedNode* const leaf = appended_leaf(false);
    ASSERT_NE(leaf, nullptr);
    tear_last_set(*leaf);
    expect_refusal(
        fmt::format("b-tree node of level 0: bad checksum at bucket {}, block {}, and the journal "
                    "does not hold the keys that are lost",
                    leaf->bucket, leaf->image.sets.back().block));
}

TEST_F(DamagedSet, WithATornAppendThatTheJournalHoldsServesOn) {
    ASSERT_NO_FATAL_FAILURE(unpack("btree-deep"));
    const PlacedNode* const leaf = appended_leaf(true);
    ASSERT_NE(leaf, nullptr);
    tear_last_set(*leaf);
    expect_service();
}

TEST_F(DamagedSet, WithAnExtentBeyondTheDeviceIsRefused) {
    ASSERT_NO_FATAL_FAILURE(unpack("btree-deep"));
    const PlacedNode* const leaf = anatomy->leaf(1);
    std::vector<Key> keys = leaf->image.sets.front().keys;
    keys.front().set_ptr(ondisk::Ptr::make(std::uint64_t{1} << 40, Gen(0)));
    anatomy->write_set(*leaf, 0, keys);
    expect_refusal(fmt::format("b-tree node of level 0: pointer past end of device at bucket {}",
                               leaf->bucket));
}

TEST_F(DamagedSet, WithANodeUnderTwoParentsKeysIsRefused) {
    ASSERT_NO_FATAL_FAILURE(unpack("btree-deep"));
    const PlacedNode& root = anatomy->root();
    const PlacedNode& first = anatomy->nodes()[1];
    const PlacedNode& second = anatomy->nodes()[2];
    for (std::size_t i = 0; i < root.image.sets.size(); ++i) {
        std::vector<Key> keys = root.image.sets[i].keys;
        for (Key& key : keys) {
            if (key == second.key) key.set_ptr(first.key.ptr());
        }
        if (keys != root.image.sets[i].keys) anatomy->write_set(root, i, keys);
    }
    expect_refusal(fmt::format("b-tree node: bucket {} is referenced twice", first.bucket));
}

TEST_F(DamagedSet, WithDataInABucketOfMetadataIsRefused) {
    ASSERT_NO_FATAL_FAILURE(unpack("btree-deep"));
    const PlacedNode* const leaf = anatomy->leaf(1);
    std::vector<Key> keys = leaf->image.sets.front().keys;
    keys.front().set_ptr(anatomy->root().key.ptr());
    anatomy->write_set(*leaf, 0, keys);
    expect_refusal(fmt::format("inconsistent ptrs: bucket {} is referenced as data and as metadata",
                               anatomy->root().bucket));
}

}  // namespace
}  // namespace uc::golden
