// What the tree leaves on the disk: every state is one that the kernel's strict reader accepts.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "index/test_world.h"

namespace uc::index {
namespace {

using ondisk::Bset;
using test::Key;
using test::TreeWorld;

class TreeOnDisk : public testing::Test {
protected:
    // Every node in memory, decoded without tolerance.
    void expect_strictly_readable() {
        for (const Node* node : world.tree().nodes_in_memory()) {
            const auto image = world.strict(node->key);
            ASSERT_TRUE(image) << image.error().what;
            EXPECT_EQ(image->next_block, node->next_block);
            EXPECT_EQ(image->seq, node->seq);
        }
    }
    ondisk::NodeImage root_image() { return *world.strict(world.tree().root().key); }

    TreeWorld world;
    Key first_root;
};

TEST_F(TreeOnDisk, BlankRootIsAReadableLeaf) {
    const ondisk::NodeImage image = root_image();
    ASSERT_EQ(image.sets.size(), 1u);
    EXPECT_TRUE(image.sets[0].keys.empty());
    EXPECT_NE(image.seq, 0u);
}

TEST_F(TreeOnDisk, FewKeysAreAppendedAsOneSet) {
    world.commit_many(5);
    world.write_all();
    const ondisk::NodeImage image = root_image();
    ASSERT_EQ(image.sets.size(), 2u);
    EXPECT_EQ(image.sets[1].keys.size(), 5u);
    EXPECT_EQ(world.tree().stats().appends, 1u);
}

TEST_F(TreeOnDisk, AppendedSetIsAtMostOneAtomicUnit) {
    world.commit_many(50);
    world.write_all();
    const ondisk::NodeImage image = root_image();
    ASSERT_EQ(image.sets.size(), 4u);
    for (std::size_t i = 1; i < image.sets.size(); ++i) EXPECT_EQ(image.sets[i].blocks, 1u);
    std::size_t keys = 0;
    for (const Bset& set : image.sets) keys += set.keys.size();
    EXPECT_EQ(keys, 50u);
}

TEST_F(TreeOnDisk, MoreThanAFewAppendsMakeANewNode) {
    world.commit_many(100);
    const Key before = world.tree().root().key;
    world.write_all();
    EXPECT_NE(world.tree().root().key.ptr(), before.ptr());
    EXPECT_EQ(root_image().sets.size(), 1u);
    EXPECT_EQ(world.tree().stats().appends, 0u);
}

TEST_F(TreeOnDisk, NodeWithoutRoomIsWrittenAnew) {
    const Key before = world.tree().root().key;
    for (std::uint64_t i = 0; i < 7; ++i) {
        world.commit_many(3, 1000 * i);
        world.write_all();
        EXPECT_EQ(world.tree().root().key, before) << i;
    }
    world.commit_many(3, 9000);
    world.write_all();
    EXPECT_NE(world.tree().root().key, before);
    ASSERT_TRUE(world.reopen()) << world.problem;
    for (std::uint64_t i = 0; i < 7; ++i) EXPECT_EQ(world.found(3, 1000 * i), 3u);
    EXPECT_EQ(world.found(3, 9000), 3u);
}

TEST_F(TreeOnDisk, EveryNodeDecodesStrictlyAfterSplitsAndOverwrites) {
    for (std::uint64_t round = 0; round < 5; ++round) {
        world.commit_many(700, round);
        world.write_all();
        ASSERT_NO_FATAL_FAILURE(expect_strictly_readable()) << round;
    }
}

TEST_F(TreeOnDisk, ReplacedNodeLeavesARecordWithItsNextGenerationInTheParent) {
    world.commit_many(1000);
    world.write_all();
    const auto first = world.tree().root().children.begin();
    const Key old = first->second.key;
    const ondisk::Pos pos = first->first;
    for (std::uint64_t i = 0; i < 100; ++i) world.commit(world.extent(4 * i));
    world.write_all();
    const Key fresh = world.tree().root().children.find(pos)->second.key;
    ASSERT_NE(fresh.ptr(), old.ptr());
    bool together = false;
    for (const Bset& set : root_image().sets) {
        const auto is_record = [&](const Key& key) {
            return key.pos() == ondisk::kPosZero && key.ptr().sector() == old.ptr().sector() &&
                   key.ptr().gen() == old.ptr().gen().next();
        };
        const auto is_new = [&](const Key& key) { return key == fresh; };
        together |=
            std::ranges::any_of(set.keys, is_record) && std::ranges::any_of(set.keys, is_new);
    }
    EXPECT_TRUE(together) << "one atomic unit names old and new";
    EXPECT_EQ(world.table().of(old.ptr()).gen, old.ptr().gen().next());
}

TEST_F(TreeOnDisk, ChildrenAreOnTheDiskBeforeAnythingPointsAtThem) {
    world.commit_many(160);
    std::map<std::uint64_t, bool> written;  // sector of a node -> with FUA
    bool sound = true;
    world.disk.before_write = [&](const io::IoRequest& request) {
        written[request.sector] = request.fua;
        sound &= request.fua || request.sector < 36 * 8;  // the journal flushes before it writes
        const Key root = world.journal().roots().btree_root;
        const bool known = written.contains(root.ptr().sector()) || root == first_root;
        sound &= known;
    };
    first_root = world.tree().root().key;
    world.commit_many(600, 2000);
    world.write_all();
    world.disk.before_write = nullptr;
    EXPECT_EQ(world.tree().root().level, 1u);
    EXPECT_TRUE(sound);
}

// What was flushed is there after a crash behind any single write.
TEST_F(TreeOnDisk, EveryPrefixOfTheWritesOfASplitReopens) {
    world.commit_many(160);
    ASSERT_TRUE(world.flush());
    std::vector<std::vector<std::byte>> images;
    world.disk.after_write = [&] { images.push_back(world.disk.bytes); };
    world.commit_many(20, 4000);
    world.commit_many(30, 1);
    world.write_all();
    world.disk.after_write = nullptr;
    ASSERT_GT(world.tree().root().level, 0u);
    ASSERT_GT(images.size(), 3u);
    for (std::size_t i = 0; i < images.size(); ++i) {
        world.executor.drop_all();
        world.disk.bytes = std::move(images[i]);
        ASSERT_TRUE(world.reopen()) << "after write " << i << ": " << world.problem;
        ASSERT_EQ(world.found(160), 160u) << "after write " << i;
        ASSERT_EQ(world.broken(), std::vector<std::string>()) << i;
    }
}

class TornAppend : public TreeOnDisk {
protected:
    // The root leaf with an appended set, which is then damaged.
    void append_and_tear() {
        world.commit_many(5);
        ASSERT_TRUE(world.flush());
        world.write_all();
        ASSERT_EQ(root_image().sets.size(), 2u);
    }
    void tear() {
        const std::span<std::byte> node = world.bytes_of(world.tree().root().key);
        node[kSectorBytes] ^= std::byte{1};  // of its checksum
        ASSERT_FALSE(world.strict(world.tree().root().key));
    }
};

TEST_F(TornAppend, LastSetIsDroppedWhenTheJournalStillHoldsItsKeys) {
    ASSERT_NO_FATAL_FAILURE(append_and_tear());
    tear();
    ASSERT_TRUE(world.reopen()) << world.problem;
    EXPECT_EQ(world.found(5), 5u);
    // Nothing may be appended behind it: it is written anew at once.
    EXPECT_EQ(root_image().sets.size(), 1u);
    ASSERT_NO_FATAL_FAILURE(expect_strictly_readable());
}

TEST_F(TornAppend, IsDamageWhenTheJournalDoesNotHoldItsKeysAnyMore) {
    ASSERT_NO_FATAL_FAILURE(append_and_tear());
    world.commit(world.extent(9000));
    ASSERT_TRUE(world.flush());  // this entry says that the five are in the leaf
    tear();
    const Result<void> reopened = world.reopen();
    ASSERT_FALSE(reopened);
    EXPECT_EQ(reopened.error().code, Errc::corrupt);
    EXPECT_NE(world.problem.find("the journal does not hold the keys"), std::string::npos)
        << world.problem;
    EXPECT_NE(world.problem.find("block 1"), std::string::npos) << world.problem;
}

TEST_F(TornAppend, SetOfWhichNothingCanBeReadIsDamage) {
    ASSERT_NO_FATAL_FAILURE(append_and_tear());
    world.commit(world.extent(9000));
    ASSERT_TRUE(world.flush());
    const std::span<std::byte> node = world.bytes_of(world.tree().root().key);
    std::ranges::fill(node.subspan(kSectorBytes + sizeof(ondisk::BsetHeader), 100), std::byte{0});
    const Result<void> reopened = world.reopen();
    ASSERT_FALSE(reopened) << "five keys that were durable would be gone without a word";
    EXPECT_EQ(reopened.error().code, Errc::corrupt);
}

TEST_F(TornAppend, FirstSetIsNeverTolerated) {
    ASSERT_NO_FATAL_FAILURE(append_and_tear());
    world.bytes_of(world.tree().root().key)[4] ^= std::byte{1};
    EXPECT_FALSE(world.reopen());
    EXPECT_NE(world.problem.find("b-tree node of level 0"), std::string::npos) << world.problem;
}

TEST_F(TreeOnDisk, DamagedInteriorNodeIsRefusedWithItsBucket) {
    world.commit_many(1000);
    world.write_all();
    ASSERT_TRUE(world.flush());
    const Key root = world.tree().root().key;
    ASSERT_EQ(world.tree().root().level, 1u);
    world.bytes_of(root)[40] ^= std::byte{1};
    EXPECT_FALSE(world.reopen());
    const std::string bucket = "bucket " + std::to_string(root.ptr().sector() / 8);
    EXPECT_NE(world.problem.find("level 1"), std::string::npos) << world.problem;
    EXPECT_NE(world.problem.find(bucket), std::string::npos) << world.problem;
}

TEST_F(TreeOnDisk, BucketUsedAsNodeAndAsDataIsRefused) {
    world.commit_many(5);
    const std::uint64_t node = world.tree().root().key.ptr().sector();
    const Gen gen = world.tree().root().key.ptr().gen();
    world.commit(Key::extent(1, 9008, 8, ondisk::Ptr::make(node, gen), false));
    ASSERT_TRUE(world.flush());
    const Result<void> reopened = world.reopen();
    ASSERT_FALSE(reopened);
    EXPECT_NE(world.problem.find("as data and as metadata"), std::string::npos) << world.problem;
}

}  // namespace
}  // namespace uc::index
