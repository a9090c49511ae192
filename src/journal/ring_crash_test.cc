// Random work on small rings of every shape. At each write the power is cut three times: before it,
// in the middle of it, behind it. Each time a recovery must find all that was acknowledged and is
// not yet in leaves, and the kernel's search must find the same entries.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/rng.h"
#include "journal/kernel_search_test.h"
#include "journal/test_world.h"

namespace uc::journal {
namespace {

using namespace std::chrono_literals;
using test::Shape;
using test::World;

struct Work {
    std::uint64_t seed = 1;
    int rounds = 300;
    bool polite = true;   // false: sometimes appends without asking for room
    bool crashes = true;  // false: only runs
};

class CrashRun {
public:
    CrashRun(Shape shape, Work work) : work_(work), rng_(work.seed), world_(shape) {
        world_.disk.before_write = [this](const io::IoRequest& request) { cut_during(request); };
        world_.disk.after_write = [this] {
            ++writes_;
            if (work_.crashes) check_image(world_.disk.bytes);
        };
        world_.journal->on_pressure([this](JournalSeq seq) { asked_ = std::max(asked_, seq); });
    }

    void run() {
        world_.start_blank();
        ASSERT_TRUE(world_.flush());
        const auto& done = world_.begin(drive());
        for (int i = 0; i < 100000 && !done; ++i) {
            reclaim();
            world_.advance(50ms);
        }
        ASSERT_TRUE(done.has_value())
            << "no progress: open " << world_.journal->open_seq() << ", durable "
            << world_.journal->durable_seq() << ", pinned " << world_.journal->oldest_pinned()
            << ", room " << world_.journal->has_room() << ", writes " << writes_;
        EXPECT_TRUE(done->has_value());
        release_up_to(world_.journal->open_seq());
        ASSERT_TRUE(world_.flush());
        const test::Reading end = test::read_image(world_.disk.bytes, world_.geometry);
        ASSERT_TRUE(end.result);
        EXPECT_EQ(end.found.entries.size(), 1u);
    }
    int writes() const { return writes_; }

private:
    Task<Result<void>> drive() {
        for (int round = 0; round < work_.rounds; ++round) {
            if (work_.polite || rng_.percent(20)) {
                CO_OK(co_await world_.journal->wait_room());
            }
            append_some();
            if (rng_.percent(work_.polite ? 40 : 5)) release_some();
            if (rng_.percent(30)) {
                const JournalSeq seq = some_seq();
                CO_OK(co_await world_.journal->flush(seq));
            }
            if (rng_.percent(10)) {
                world_.journal->set_prio_bucket(rng_.below(1000));
                const JournalSeq open = world_.journal->open_seq();
                CO_OK(co_await world_.journal->flush(open));
            }
        }
        co_return Result<void>();
    }

    JournalSeq some_seq() {
        const bool pinned = !pins_.empty() && rng_.percent(50);
        return pinned ? pins_.rbegin()->first : world_.journal->open_seq();
    }
    void append_some() {
        const std::size_t most = world_.journal->max_keys();
        const std::size_t count =
            1 + rng_.below(rng_.percent(30) ? most : std::min<std::size_t>(most, 40));
        const std::vector<ondisk::Key> list = test::keys(count, next_id_);
        const JournalSeq seq = world_.journal->append(list);
        world_.journal->pin(seq);
        for (std::size_t i = 0; i < count; ++i) unwritten_[next_id_++] = seq;
        ++pins_[seq];
    }
    void release_some() { release_up_to(pins_.empty() ? 0 : pins_.begin()->first + rng_.below(3)); }
    // The leaves that pin entries up to `seq` are written.
    void release_up_to(JournalSeq seq) {
        std::erase_if(unwritten_, [&](const auto& key) { return key.second <= seq; });
        while (!pins_.empty() && pins_.begin()->first <= seq) {
            for (int i = 0; i < pins_.begin()->second; ++i) {
                world_.journal->unpin(pins_.begin()->first);
            }
            pins_.erase(pins_.begin());
        }
    }
    void reclaim() {
        release_up_to(std::exchange(asked_, 0));
        world_.executor.run_ready();
    }

    void cut_during(const io::IoRequest& request) {
        EXPECT_TRUE(request.fua);
        if (!work_.crashes) return;
        std::vector<std::byte> image = world_.disk.bytes;
        for (std::uint64_t i = 0; i < request.sectors; ++i) {  // any subset of the sectors
            if (rng_.percent(50)) continue;
            std::memcpy(image.data() + (request.sector + i) * kSectorBytes,
                        request.data + i * kSectorBytes, kSectorBytes);
        }
        check_image(image);
    }

    void check_image(const std::vector<std::byte>& image) {
        if (world_.journal->durable_seq() == 0) return;  // nothing was acknowledged
        const test::Reading reading = test::read_image(image, world_.geometry);
        ASSERT_TRUE(reading.result) << reading.found.problem << " at write " << writes_;
        const std::vector<ondisk::Jset>& entries = reading.found.entries;
        std::set<std::uint64_t> found;
        for (const ondisk::Jset& entry : entries) {
            for (const ondisk::Key& key : entry.keys) found.insert(key.end() / 8 - 1);
        }
        const JournalSeq durable = world_.journal->durable_seq();
        for (const auto& [id, seq] : unwritten_) {
            if (seq <= durable) {
                ASSERT_TRUE(found.count(id)) << "lost key " << id << " of " << seq;
            }
        }
        test::KernelSearch search(image, world_.geometry, test::kMagic);
        const auto& kernel = search.run();
        ASSERT_FALSE(kernel.empty());
        ASSERT_EQ(kernel.rbegin()->first, entries.back().seq);
        for (const ondisk::Jset& entry : entries) ASSERT_TRUE(kernel.count(entry.seq));
        check_last_seq(entries);
    }
    void check_last_seq(const std::vector<ondisk::Jset>& entries) {
        for (std::size_t i = 1; i < entries.size(); ++i) {
            ASSERT_GE(entries[i].last_seq, entries[i - 1].last_seq);
            ASSERT_EQ(entries[i].seq, entries[i - 1].seq + 1);
        }
    }

    Work work_;
    Rng rng_;
    World world_;
    std::uint64_t next_id_ = 1;
    std::map<std::uint64_t, JournalSeq> unwritten_;  // key id -> its entry
    std::map<JournalSeq, int> pins_;
    JournalSeq asked_ = 0;
    int writes_ = 0;
};

std::vector<Shape> all_shapes() {
    std::vector<Shape> shapes;
    for (std::uint32_t slots = 2; slots <= 8; ++slots) {
        for (const std::uint32_t block : {1u, 8u}) {
            for (const std::uint32_t bucket : {8u, 32u, 128u}) {
                shapes.push_back(Shape{slots, block, bucket});
            }
        }
    }
    return shapes;
}

std::string text(Shape shape) {
    return std::to_string(shape.slots) + " slots, block " + std::to_string(shape.block_sectors) +
           ", bucket " + std::to_string(shape.bucket_sectors);
}

TEST(JournalCrash, EveryCutLeavesAllAcknowledgedKeysForUsAndTheKernel) {
    for (const Shape shape : all_shapes()) {
        SCOPED_TRACE(text(shape));
        Work work;
        work.rounds = shape.bucket_sectors == 128 ? 120 : 80;
        CrashRun run(shape, work);
        run.run();
        if (testing::Test::HasFatalFailure()) return;
        EXPECT_GT(run.writes(), 20);
    }
}

TEST(JournalCrash, AppendingWithoutAskingForRoomStillMakesProgress) {
    for (const Shape shape : all_shapes()) {
        for (std::uint64_t seed = 1; seed <= 3; ++seed) {
            SCOPED_TRACE(text(shape) + " seed " + std::to_string(seed));
            Work work;
            work.seed = seed;
            work.rounds = 60;
            work.polite = false;
            CrashRun run(shape, work);
            run.run();
            if (testing::Test::HasFatalFailure()) return;
        }
    }
}

TEST(JournalCrash, RingsWrapForLong) {
    for (const Shape shape : all_shapes()) {
        SCOPED_TRACE(text(shape));
        Work work;
        work.seed = 7;
        work.rounds = 3000;
        work.crashes = false;
        CrashRun run(shape, work);
        run.run();
        if (testing::Test::HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace uc::journal
