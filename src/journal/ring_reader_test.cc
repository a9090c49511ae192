#include <gtest/gtest.h>

#include <string>

#include "journal/test_world.h"

namespace uc::journal {
namespace {

using test::read_image;
using test::Reading;
using test::Shape;

// Writes chosen entries to chosen places.
class Image {
public:
    explicit Image(Shape shape = {})
        : geometry(test::geometry_of(shape)),
          bytes(geometry.nbuckets * geometry.bucket_sectors * kSectorBytes) {}

    // Returns the first block behind it.
    std::uint32_t put(std::uint32_t slot, std::uint32_t block, JournalSeq seq, JournalSeq last_seq,
                      std::size_t key_count = 0, std::uint64_t magic = test::kMagic) {
        ondisk::Jset jset;
        jset.seq = seq;
        jset.last_seq = last_seq;
        jset.uuid_bucket = test::some_roots().uuid_bucket;
        jset.btree_root = test::some_roots().btree_root;
        jset.keys = test::keys(key_count);
        const std::uint32_t blocks = geometry.blocks(ondisk::jset_bytes(jset));
        ondisk::encode_jset(jset, magic,
                            std::span(bytes).subspan(at(slot, block),
                                                     std::size_t{blocks} * geometry.block_bytes()));
        return block + blocks;
    }
    std::size_t at(std::uint32_t slot, std::uint32_t block) const {
        return geometry.bucket_start(geometry.first_bucket + slot) * kSectorBytes +
               std::size_t{block} * geometry.block_bytes();
    }
    Reading read(bool discard = false) const { return read_image(bytes, geometry, discard); }

    ondisk::Geometry geometry;
    std::vector<std::byte> bytes;
};

TEST(RingReader, EmptyRingIsAnError) {
    const Reading reading = Image().read();
    ASSERT_FALSE(reading.result);
    EXPECT_EQ(reading.result.error().code, Errc::corrupt);
    EXPECT_EQ(reading.found.problem, "no journal entries found");
}

TEST(RingReader, ReturnsTheNeededEntriesInOrderAcrossTheWrap) {
    Image image;
    std::uint32_t block = image.put(3, 0, 10, 10, 5);
    image.put(3, block, 11, 10, 5);
    block = image.put(0, 0, 12, 11, 5);
    const std::uint32_t end = image.put(0, block, 13, 11, 1000);
    const Reading reading = image.read();
    ASSERT_TRUE(reading.result);
    ASSERT_EQ(reading.found.entries.size(), 3u);
    EXPECT_EQ(reading.found.entries[0].seq, 11u);
    EXPECT_EQ(reading.found.entries[2].seq, 13u);
    EXPECT_EQ(reading.found.entries[2].keys.size(), 1000u);
    EXPECT_EQ(reading.found.newest_slot, 0u);
    EXPECT_EQ(reading.found.newest_end_block, end);
    EXPECT_EQ(reading.found.slot_newest, (std::vector<JournalSeq>{13, 0, 0, 11}));
}

TEST(RingReader, DropsAnEntryOfAnEarlierLapBehindTheNewest) {
    Image image;
    image.put(1, 0, 100, 90, 3);
    image.put(1, 1, 20, 15, 3);  // same slot, earlier lap
    image.put(0, 0, 99, 90, 3);
    for (JournalSeq seq = 90; seq < 99; ++seq) {
        image.put(3, static_cast<std::uint32_t>(seq - 90), seq, 90, 1);
    }
    const Reading reading = image.read();
    ASSERT_TRUE(reading.result) << reading.found.problem;
    EXPECT_EQ(reading.found.entries.front().seq, 90u);
    EXPECT_EQ(reading.found.entries.back().seq, 100u);
}

TEST(RingReader, NamesTheMissingEntries) {
    Image image;
    std::uint32_t block = image.put(1, 0, 5, 5, 1);
    block = image.put(1, block, 6, 5, 1);
    image.put(1, block, 9, 5, 1);
    for (const bool discard : {false, true}) {
        const Reading reading = image.read(discard);
        ASSERT_FALSE(reading.result);
        EXPECT_EQ(reading.result.error().code, Errc::corrupt);
        EXPECT_EQ(reading.found.problem, "journal entries 7-8 missing! (replaying 5-9)");
    }
}

TEST(RingReader, GapAtTheBeginningIsToleratedOnlyWithDiscard) {
    Image image;
    image.put(1, 0, 9, 5, 1);
    const Reading strict = image.read(false);
    ASSERT_FALSE(strict.result);
    EXPECT_EQ(strict.found.problem, "journal entries 5-8 missing! (replaying 5-9)");
    const Reading tolerant = image.read(true);
    ASSERT_TRUE(tolerant.result);
    ASSERT_EQ(tolerant.found.entries.size(), 1u);
}

TEST(RingReader, TornLastEntryEndsTheSequence) {
    Image image;
    const std::uint32_t block = image.put(1, 0, 1, 1, 1);
    image.put(1, block, 2, 1, 500);
    image.bytes[image.at(1, block) + 5000] ^= std::byte{1};
    const Reading reading = image.read();
    ASSERT_TRUE(reading.result);
    ASSERT_EQ(reading.found.entries.size(), 1u);
    EXPECT_EQ(reading.found.newest_end_block, block);
}

TEST(RingReader, IgnoresEntriesOfAnotherSet) {
    Image image;
    const std::uint32_t block = image.put(1, 0, 1, 1, 1);
    image.put(1, block, 2, 1, 1, test::kMagic ^ 1);
    image.put(2, 0, 50, 50, 1, test::kMagic ^ 1);
    const Reading reading = image.read();
    ASSERT_TRUE(reading.result);
    EXPECT_EQ(reading.found.entries.back().seq, 1u);
}

TEST(RingReader, ReadsSlotsLargerThanItsWindow) {
    Image image(Shape{3, 8, 2048});  // 1 MiB slots
    std::uint32_t block = 0;
    JournalSeq seq = 1;
    while (block + 8 <= 256) block = image.put(1, block, seq++, 1, 1000);
    image.put(2, 0, seq, 1, 3);
    const Reading reading = image.read();
    ASSERT_TRUE(reading.result) << reading.found.problem;
    EXPECT_EQ(reading.found.entries.size(), seq);
    EXPECT_EQ(reading.found.newest_slot, 2u);
}

TEST(RingReader, PassesReadErrorsOn) {
    Image image;
    test::FakeDisk disk(image.bytes);
    disk.fail_reads = true;
    async::Executor executor;
    Recovered found;
    std::optional<Result<void>> result;
    executor.spawn(
        test::keep_result(read_ring(disk, image.geometry, test::kMagic, false, found), result));
    executor.run_ready();
    ASSERT_TRUE(result.has_value());
    ASSERT_FALSE(*result);
    EXPECT_EQ(result->error().code, Errc::io);
}

TEST(RingReader, ReadsSeveralSlotsAtTheSameTime) {
    Image image(Shape{8, 1, 128});
    image.put(1, 0, 1, 1, 1);
    test::FakeDisk disk(image.bytes);
    disk.hold = true;
    async::Executor executor;
    Recovered found;
    std::optional<Result<void>> result;
    executor.spawn(
        test::keep_result(read_ring(disk, image.geometry, test::kMagic, false, found), result));
    executor.run_ready();
    EXPECT_EQ(disk.held.size(), 8u);
    while (!disk.held.empty()) {
        disk.complete_one();
        executor.run_ready();
    }
    ASSERT_TRUE(result.has_value());
    EXPECT_TRUE(*result);
}

}  // namespace
}  // namespace uc::journal
