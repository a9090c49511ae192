// Crashes at the worst of times: the journal's ring is full, no bucket is free. The set opens and
// makes progress every time.
#include <cstring>

#include "engine_world.h"

namespace uc::test {
namespace {

constexpr std::uint64_t kBlock = 8;
constexpr std::uint64_t kApart = 2 * kBlock;  // so that no two extents become one
// The smallest journal: five slots of four blocks.
constexpr CacheShape kSmall{.nbuckets = 640, .bucket_sectors = 32};

// Writes distinct blocks with rising versions, and knows what has to be there after a crash.
class Writers {
public:
    Writers(EngineWorld& world, std::uint64_t blocks) : world_(world), blocks_(blocks) {}

    // Each of `count` writers goes round its share of the blocks, for ever.
    void start(SetVolume& volume, unsigned count, bool flush) {
        for (unsigned i = 0; i < count; ++i) {
            world_.world.executor().spawn(write_on(volume, i, count, flush));
        }
    }
    // After a crash: every block has a version that it may have; that one is durable now.
    void check(SetVolume& volume) {
        for (std::uint64_t b = 0; b < blocks_.size(); ++b) {
            const unsigned found = version(volume, b);
            ASSERT_GE(found, blocks_[b].flushed) << "block " << b;
            ASSERT_LE(found, blocks_[b].sent) << "block " << b;
            blocks_[b].flushed = blocks_[b].sent = found;
        }
    }
    std::uint64_t errors() const { return errors_; }

private:
    struct Block {
        unsigned sent = 0;
        unsigned flushed = 0;
    };

    Task<void> write_on(SetVolume& volume, unsigned first, unsigned step, bool flush) {
        for (std::uint64_t b = first;; b = b + step < blocks_.size() ? b + step : first) {
            const unsigned version = ++blocks_[b].sent;
            const io::Buffer data = pattern(b * kApart, kBlock, version);
            const core::WriteFlags flags;
            const Result<void> written = co_await volume.write(b * kApart, data.span(), flags);
            Result<void> flushed;
            if (written && flush) {
                const Result<void> done = co_await volume.flush();
                flushed = done;
            }
            if (!written || !flushed) {
                ++errors_;
                co_return;
            }
            if (flush) blocks_[b].flushed = std::max(blocks_[b].flushed, version);
        }
    }
    unsigned version(SetVolume& volume, std::uint64_t block) {
        io::Buffer data(kBlock * kSectorBytes);
        EXPECT_TRUE(world_.run(volume.read(block * kApart, data.span())));
        std::uint64_t words[2];
        std::memcpy(words, data.data(), sizeof words);
        const unsigned found = static_cast<unsigned>(words[1]);
        const io::Buffer whole = pattern(block * kApart, kBlock, found);
        const bool same = std::ranges::equal(whole.span(), data.span());
        EXPECT_TRUE(same || found == 0) << "block " << block << " is a mixture";
        return found;
    }

    EngineWorld& world_;
    std::vector<Block> blocks_;
    std::uint64_t errors_ = 0;
};

bool ring_is_full(const EngineWorld& world) {
    return world.set->describe().find("room false") != std::string::npos;
}

TEST(FullJournal, ACrashWithAFullRingLosesNothingAndTheSetGoesOn) {
    for (const auto kind : {sim::CrashKind::process_death, sim::CrashKind::power_cut}) {
        EngineWorld world(kSmall);
        WatchedDevice& backing = world.format();
        Writers writers(world, 480);
        for (int round = 0; round < 12; ++round) {
            SetVolume& volume = world.start(backing);
            ASSERT_NO_FATAL_FAILURE(writers.check(volume));
            // A round more each time, so that other slots are the full ones.
            writers.start(volume, 24, true);
            for (int full = 0; full <= round; ++full) {
                ASSERT_TRUE(world.wait_until([&] { return ring_is_full(world); }, minutes(5)));
                if (full == round) break;
                ASSERT_TRUE(world.wait_until([&] { return !ring_is_full(world); }, minutes(5)))
                    << "a full ring is never freed: " << world.set->describe();
            }
            EXPECT_EQ(writers.errors(), 0u);
            world.crash(kind);
            ASSERT_EQ(world.problems(), std::vector<std::string>()) << "round " << round;
        }
        ASSERT_NO_FATAL_FAILURE(writers.check(world.start(backing)));
        EXPECT_TRUE(world.stop());
    }
}

class FullCache : public testing::Test {
protected:
    // Fills a flash-only volume until nothing goes in any more, in the background.
    Task<void> fill(SetVolume& volume) {
        for (std::uint64_t at = 0; at + kBlock <= volume.size_sectors(); at += kBlock) {
            const io::Buffer data = pattern(at, kBlock, 1);
            const core::WriteFlags flags;
            const Result<void> written = co_await volume.write(at, data.span(), flags);
            if (!written) break;
            sent = at + kBlock;
            if (at % (64 * kBlock) != 0) continue;
            const Result<void> done = co_await volume.flush();
            if (!done) break;
            flushed = at + kBlock;
        }
        filled = true;
    }
    SetVolume& flash_volume() { return *world.set->volumes().front(); }

    EngineWorld world{kSmall};
    std::uint64_t sent = 0;
    std::uint64_t flushed = 0;
    bool filled = false;
};

TEST_F(FullCache, ACrashWithoutAFreeBucketIsSurvivedAndSpaceThatIsGivenBackIsUsed) {
    ASSERT_TRUE(world.open());
    ASSERT_TRUE(world.run(world.set->create_flash_volume(world.cache->size_sectors(), "")));
    world.world.executor().spawn(fill(flash_volume()));
    ASSERT_TRUE(world.wait_until([&] { return filled; }, hours(1)));
    ASSERT_GT(flushed, world.cache->size_sectors() * 3 / 4);
    for (int round = 0; round < 10; ++round) {
        world.crash(round % 2 == 0 ? sim::CrashKind::power_cut : sim::CrashKind::process_death);
        ASSERT_EQ(world.problems(), std::vector<std::string>());
        ASSERT_TRUE(world.open()) << world.report.refusal;
        SetVolume& volume = flash_volume();
        for (std::uint64_t at = 0; at < flushed; at += kBlock) {
            ASSERT_EQ(world.read(volume, at, kBlock, 1), 1) << at;
        }
        // Whatever room there is, a rewrite of every block of a part goes in after a trim.
        const std::uint64_t from = static_cast<std::uint64_t>(round) * 512;
        ASSERT_TRUE(world.run(volume.discard(from, 512)));
        for (std::uint64_t at = from; at < from + 512; at += kBlock) {
            const Result<void> written = world.write(volume, at, kBlock, 1);
            ASSERT_TRUE(written) << written.error().what << " in round " << round;
        }
        ASSERT_TRUE(world.flush(volume));
    }
    EXPECT_EQ(world.run(world.set->check_invariants()), std::vector<std::string>());
}

}  // namespace
}  // namespace uc::test
