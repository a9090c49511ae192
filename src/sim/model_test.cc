#include "sim/model.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "async/sync.h"
#include "sim/sim_world.h"

namespace uc::sim {
namespace {

class ModelTest : public ::testing::Test {
protected:
    struct Written {
        VolumeModel::Write write;
        std::vector<std::byte> data;
    };
    Written begin(bool fua = false) {
        Written written;
        written.data.resize(kSectorBytes);
        written.write = model.begin_write(5, written.data, fua);
        return written;
    }
    Written write(bool fua = false) {
        Written written = begin(fua);
        model.end_write(written.write, true);
        return written;
    }
    void flush() { model.end_flush(model.begin_flush(), true); }
    bool accepts(const std::vector<std::byte>& data) {
        return !model.end_read(model.begin_read(), 5, data).has_value();
    }
    void power_cut() { model.crash(CrashKind::power_cut); }

    VolumeModel model{1, 16, VolumeModel::Discards::anything};
    std::vector<std::byte> zeroes = std::vector<std::byte>(kSectorBytes);
};

TEST_F(ModelTest, ReadMustReturnTheLatestAcknowledgedWrite) {
    const Written a = write();
    const Written b = write();
    EXPECT_FALSE(accepts(a.data));
    EXPECT_FALSE(accepts(zeroes));
    EXPECT_TRUE(accepts(b.data));
}

TEST_F(ModelTest, WriteInFlightMayBeSeenOrNotButNotUnseenAgain) {
    const Written a = write();
    const Written b = begin();
    EXPECT_TRUE(accepts(a.data));
    EXPECT_TRUE(accepts(b.data));
    EXPECT_FALSE(accepts(a.data));
}

TEST_F(ModelTest, OverlappingWritesTakeOneOrder) {
    const Written a = begin();
    const Written b = begin();
    model.end_write(b.write, true);
    model.end_write(a.write, true);
    EXPECT_TRUE(accepts(b.data));
    EXPECT_FALSE(accepts(a.data));
}

TEST_F(ModelTest, ReadThatOverlapsAWriteMayReturnTheOldValue) {
    const Written a = write();
    const Stamp begun = model.begin_read();
    write();
    EXPECT_FALSE(model.end_read(begun, 5, a.data).has_value());
}

TEST_F(ModelTest, CrashMayLoseWhatWasNotFlushedButNothingElse) {
    const Written a = write();
    flush();
    const Written b = write();
    power_cut();
    EXPECT_FALSE(accepts(zeroes));
    VolumeModel other = model;
    EXPECT_TRUE(accepts(a.data));
    EXPECT_FALSE(accepts(b.data)) << "what was read after a crash is pinned";
    EXPECT_FALSE(other.end_read(other.begin_read(), 5, b.data).has_value());
}

TEST_F(ModelTest, FlushDoesNotCoverAWriteThatItOverlaps) {
    const Written a = begin();
    const Stamp begun = model.begin_flush();
    model.end_write(a.write, true);
    model.end_flush(begun, true);
    power_cut();
    EXPECT_TRUE(accepts(zeroes));
}

TEST_F(ModelTest, FuaIsDurableWithoutFlush) {
    write();
    const Written b = write(true);
    power_cut();
    EXPECT_FALSE(accepts(zeroes));
    EXPECT_TRUE(accepts(b.data));
}

TEST_F(ModelTest, PinnedValueStaysPinnedAcrossAnotherCrash) {
    const Written a = write();
    flush();
    const Written b = write();
    power_cut();
    EXPECT_TRUE(accepts(a.data));
    power_cut();
    EXPECT_FALSE(accepts(b.data));
}

TEST_F(ModelTest, AfterDeathOfTheProcessAReadValueMayStillBeLostUntilAFlush) {
    const Written a = write();
    model.crash(CrashKind::process_death);
    EXPECT_TRUE(accepts(a.data));
    VolumeModel other = model;
    power_cut();
    EXPECT_TRUE(accepts(zeroes));
    other.end_flush(other.begin_flush(), true);
    other.crash(CrashKind::power_cut);
    EXPECT_TRUE(other.end_read(other.begin_read(), 5, zeroes).has_value());
}

TEST_F(ModelTest, DiscardedSectorsMayHoldAnythingOfThemselvesUntilWritten) {
    const Written a = write();
    const Written b = write();
    model.end_write(model.begin_discard(5, 1), true);
    EXPECT_TRUE(model.undefined(5));
    EXPECT_TRUE(accepts(b.data));
    EXPECT_TRUE(accepts(a.data));
    EXPECT_TRUE(accepts(zeroes));
    std::vector<std::byte> garbage(kSectorBytes, std::byte{0xA5});
    EXPECT_FALSE(accepts(garbage));
    write();
    EXPECT_FALSE(accepts(a.data));
    EXPECT_TRUE(model.undefined(5)) << "a crash could bring the discard back";
    flush();
    EXPECT_FALSE(model.undefined(5));
}

TEST_F(ModelTest, TornAndMisplacedSectorsAreForeign) {
    Written a = write();
    EXPECT_TRUE(model.end_read(model.begin_read(), 6, a.data).has_value());
    a.data[300] = std::byte{1};
    EXPECT_FALSE(accepts(a.data));
}

// Load on a plain disk: the model must never object, whatever the disk does to it.
class PlainDisk {
public:
    PlainDisk(std::uint64_t seed, bool lying_flush) : world_(seed), lying_flush_(lying_flush) {
        SimDiskOptions options;
        options.sectors = kSectors;
        disk_ = &world_.add_disk(options);
    }

    std::string run(unsigned lives) {
        for (unsigned life = 0; life < lives && problem_.empty(); ++life) {
            CrashPlan plan;
            plan.at = static_cast<CrashPlan::At>(rng().below(2));
            plan.count = 1 + rng().below(60);
            world_.plan_crash(plan);
            async::TaskGroup group(world_.executor());
            ops_ = 80;
            for (int i = 0; i < 6; ++i) group.spawn(client());
            world_.run_until([&] { return group.running() == 0; }, std::chrono::hours(1));
            const CrashKind kind =
                rng().percent(70) ? CrashKind::power_cut : CrashKind::process_death;
            world_.crash(kind);
            model_.crash(kind);
            if (rng().percent(80)) look();
        }
        return problem_;
    }

private:
    static constexpr std::uint64_t kSectors = 64;
    Rng& rng() { return world_.rng(); }

    void look() {
        std::vector<std::byte> bytes(kSectors * kSectorBytes);
        disk_->peek(0, bytes);
        judge(model_.begin_read(), 0, bytes);
    }
    void judge(Stamp begun, std::uint64_t sector, const std::vector<std::byte>& data) {
        if (auto problem = model_.end_read(begun, sector, data)) problem_ = *problem;
    }
    Task<void> client() {
        while (ops_ > 0 && problem_.empty()) {
            --ops_;
            co_await one();
        }
    }
    Task<void> one() {
        const std::uint64_t sectors = 1 + rng().below(8);
        const std::uint64_t sector = rng().below(kSectors - sectors + 1);
        const std::uint64_t kind = rng().below(10);
        std::vector<std::byte> data(sectors * kSectorBytes);
        if (kind < 4) {
            const Stamp begun = model_.begin_read();
            Result<void> result = co_await disk_->read(sector, data);
            if (result) judge(begun, sector, data);
        } else if (kind < 9) {
            const bool fua = rng().percent(20);
            const VolumeModel::Write write = model_.begin_write(sector, data, fua);
            Result<void> result = co_await disk_->write(sector, data, fua);
            model_.end_write(write, result.has_value());
        } else {
            const Stamp begun = model_.begin_flush();
            if (lying_flush_) {
                model_.end_flush(begun, true);
            } else {
                const Result<void> result = co_await disk_->flush();
                model_.end_flush(begun, result.has_value());
            }
        }
    }

    SimWorld world_;
    SimDisk* disk_ = nullptr;
    VolumeModel model_{1, kSectors, VolumeModel::Discards::anything};
    bool lying_flush_;
    unsigned ops_ = 0;
    std::string problem_;
};

TEST(ModelAgainstDisk, NeverObjectsToAPlainDisk) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        PlainDisk disk(seed, false);
        ASSERT_EQ(disk.run(6), "") << "seed " << seed;
    }
}

TEST(ModelAgainstDisk, NoticesAFlushThatDoesNothing) {
    int noticed = 0;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        PlainDisk disk(seed, true);
        noticed += disk.run(6).empty() ? 0 : 1;
    }
    EXPECT_GT(noticed, 10);
}

}  // namespace
}  // namespace uc::sim
