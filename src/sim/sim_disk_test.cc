#include "sim/sim_disk.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>

#include "async/executor.h"
#include "async/task.h"
#include "sim/sim_world.h"

namespace uc::sim {
namespace {

constexpr Duration kLong = std::chrono::hours(1);

std::vector<std::byte> filled(std::uint64_t sectors, int value) {
    return std::vector<std::byte>(sectors * kSectorBytes, static_cast<std::byte>(value));
}

class SimDiskTest : public ::testing::Test {
protected:
    void make(std::uint64_t seed) {
        world = std::make_unique<SimWorld>(seed);
        SimDiskOptions options;
        options.sectors = 1024;
        options.immediate_percent = 0;
        options.atomic_sectors = atomic;
        disk = &world->add_disk(options);
    }
    // Submits without waiting.
    void start(io::IoKind kind, std::uint64_t sector, std::vector<std::byte>& data,
               bool fua = false) {
        world->executor().spawn(request(kind, sector, data, fua));
        world->executor().run_ready();
    }
    void finish() {
        world->run_until([this] { return disk->in_flight() == 0; }, kLong);
    }
    void write(std::uint64_t sector, int value, std::uint64_t sectors = 1, bool fua = false) {
        buffers.push_back(filled(sectors, value));
        start(io::IoKind::write, sector, buffers.back(), fua);
    }
    void flush() {
        buffers.emplace_back();
        start(io::IoKind::flush, 0, buffers.back());
    }
    int at(std::uint64_t sector) const {
        std::array<std::byte, kSectorBytes> bytes;
        disk->peek(sector, bytes);
        return static_cast<int>(bytes[0]);
    }
    Task<Result<void>> submit(io::IoKind kind, std::uint64_t sector, std::vector<std::byte>& data,
                              bool fua) {
        if (kind == io::IoKind::flush) co_return co_await disk->flush();
        if (kind == io::IoKind::read) co_return co_await disk->read(sector, data);
        co_return co_await disk->write(sector, data, fua);
    }
    Task<void> request(io::IoKind kind, std::uint64_t sector, std::vector<std::byte>& data,
                       bool fua) {
        const Result<void> result = co_await submit(kind, sector, data, fua);
        last = result;
        ++done;
    }

    std::unique_ptr<SimWorld> world;
    SimDisk* disk = nullptr;
    std::deque<std::vector<std::byte>> buffers;
    Result<void> last;
    int done = 0;
    std::uint32_t atomic = 1;
};

TEST_F(SimDiskTest, ReadsReturnWhatCompletedWritesWrote) {
    make(1);
    write(7, 42, 3);
    finish();
    std::vector<std::byte> out(kSectorBytes);
    start(io::IoKind::read, 9, out);
    finish();
    world->executor().run_ready();
    EXPECT_EQ(static_cast<int>(out[100]), 42);
    EXPECT_EQ(done, 2);
}

TEST_F(SimDiskTest, FlushedWritesSurviveEveryPowerCut) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        make(seed);
        write(1, 11, 4);
        finish();
        flush();
        finish();
        world->crash(CrashKind::power_cut);
        for (std::uint64_t s = 1; s < 5; ++s) ASSERT_EQ(at(s), 11);
    }
}

TEST_F(SimDiskTest, UnflushedWritesAreSometimesLostSometimesKeptSometimesTorn) {
    std::set<int> states;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        make(seed);
        write(0, 11, 2);
        finish();
        world->crash(CrashKind::power_cut);
        states.insert(at(0) + at(1) * 100);
    }
    EXPECT_EQ(states, (std::set<int>{0, 11, 1100, 1111}));
}

TEST_F(SimDiskTest, FlushDoesNotCoverWritesInFlightWhenItWasSubmitted) {
    bool lost = false;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        make(seed);
        write(1, 11);
        flush();
        finish();
        world->crash(CrashKind::power_cut);
        lost |= at(1) == 0;
    }
    EXPECT_TRUE(lost);
}

TEST_F(SimDiskTest, FuaIsDurableAndOlderUnflushedDataDoesNotComeBackOverIt) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        make(seed);
        write(1, 11, 4);
        finish();
        write(2, 22, 1, true);
        finish();
        world->crash(CrashKind::power_cut);
        ASSERT_EQ(at(2), 22);
    }
}

TEST_F(SimDiskTest, AtomicUnitsAreNotTorn) {
    atomic = 8;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        make(seed);
        write(0, 11, 16);
        world->crash(CrashKind::power_cut);
        for (std::uint64_t s = 1; s < 16; ++s) {
            ASSERT_EQ(at(s), at(s / 8 * 8));
        }
    }
}

TEST_F(SimDiskTest, DeathOfTheProcessKeepsTheWriteCacheButAPowerCutMayStillTakeIt) {
    bool lost = false;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        make(seed);
        write(1, 11);
        finish();
        world->crash(CrashKind::process_death);
        ASSERT_EQ(at(1), 11);
        world->crash(CrashKind::power_cut);
        lost |= at(1) == 0;
    }
    EXPECT_TRUE(lost);
}

TEST_F(SimDiskTest, FaultsHitTheirRangeAsOftenAsPlanned) {
    make(1);
    Fault fault;
    fault.sector = 10;
    fault.sectors = 1;
    fault.writes = true;
    fault.times = 1;
    disk->add_fault(fault);
    write(8, 11, 4);
    finish();
    world->executor().run_ready();
    EXPECT_FALSE(last.has_value());
    EXPECT_EQ(at(8), 0);
    write(8, 11, 4);
    finish();
    world->executor().run_ready();
    EXPECT_TRUE(last.has_value());
}

TEST_F(SimDiskTest, RequestsBeyondTheEndAreRefused) {
    make(1);
    write(1023, 11, 2);
    world->executor().run_ready();
    ASSERT_FALSE(last.has_value());
    EXPECT_EQ(last.error().code, Errc::invalid);
}

TEST_F(SimDiskTest, SnapshotBringsBothStatesBack) {
    make(1);
    write(1, 11);
    finish();
    const auto before = disk->snapshot();
    write(1, 22, 1, true);
    finish();
    disk->restore(*before);
    EXPECT_EQ(at(1), 11);
    EXPECT_EQ(disk->unflushed(), 1U);
}

TEST_F(SimDiskTest, PlannedCrashStopsTheWorldAtTheSubmission) {
    make(1);
    CrashPlan plan;
    plan.count = 2;
    world->plan_crash(plan);
    write(1, 11);
    EXPECT_FALSE(world->crash_due());
    write(2, 22);
    EXPECT_TRUE(world->crash_due());
    write(3, 33);
    EXPECT_EQ(disk->in_flight(), 2U);
    EXPECT_EQ(world->run_until([] { return false; }, kLong), Ended::crash);
}

}  // namespace
}  // namespace uc::sim
