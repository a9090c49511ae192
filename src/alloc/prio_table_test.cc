#include "alloc/prio_table.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "async/executor.h"
#include "io/buffer.h"
#include "io/mem_device.h"

namespace uc::alloc {
namespace {

constexpr std::uint64_t kMagic = 0x0123456789abcdef;

template <class T>
Task<void> keep_result(Task<T> task, std::optional<T>& out) {
    T result = co_await std::move(task);
    out.emplace(std::move(result));
}

class PrioTableTest : public testing::Test {
protected:
    // 1352 entries fit into a bucket of 4 KiB: three of them.
    static ondisk::Geometry three_members() {
        ondisk::Geometry geometry;
        geometry.block_sectors = 1;
        geometry.bucket_sectors = 8;
        geometry.nbuckets = 3000;
        geometry.first_bucket = 3;
        geometry.njournal = 23;
        return geometry;
    }
    PrioTableTest() : device(std::move(*io::MemDevice::create(3000 * 8))) {}

    template <class T>
    T run(Task<T> task) {
        std::optional<T> result;
        executor.spawn(keep_result(std::move(task), result));
        executor.run_ready();
        return std::move(*result);
    }
    void write(std::uint64_t seq = 5) {
        for (BucketIndex b = 0; b < table.size(); ++b) {
            table.at(b).gen = Gen(static_cast<std::uint8_t>(b * 7));
            table.set_prio(b, static_cast<std::uint16_t>(b));
        }
        ASSERT_TRUE(run(write_prio_table(*device, members, seq, kMagic, table)));
    }
    Result<std::vector<BucketIndex>> read(std::uint64_t first) {
        return run(read_prio_table(*device, first, kMagic, found, problem));
    }
    void damage(BucketIndex bucket, std::size_t offset) {
        io::Buffer bytes(4096);
        ASSERT_TRUE(run(read_bucket(bucket, bytes)));
        bytes.data()[offset] ^= std::byte{1};
        ASSERT_TRUE(run(write_bucket(bucket, bytes)));
    }
    Task<Result<void>> read_bucket(BucketIndex bucket, io::Buffer& bytes) {
        co_return co_await device->read(table.geometry().bucket_start(bucket), bytes.span());
    }
    Task<Result<void>> write_bucket(BucketIndex bucket, io::Buffer& bytes) {
        co_return co_await device->write(table.geometry().bucket_start(bucket), bytes.span());
    }

    async::Executor executor;
    BucketTable table{three_members()};
    BucketTable found{three_members()};
    std::vector<BucketIndex> members{100, 40, 2999};
    std::unique_ptr<io::MemDevice> device;
    std::string problem;
};

TEST_F(PrioTableTest, ChainOfSeveralBucketsComesBackAsWritten) {
    write();
    const auto read_back = read(100);
    ASSERT_TRUE(read_back) << problem;
    EXPECT_EQ(*read_back, members);
    for (BucketIndex b = 0; b < table.size(); ++b) {
        ASSERT_EQ(found.at(b).gen, table.at(b).gen) << b;
        ASSERT_EQ(found.at(b).durable_gen, table.at(b).gen) << b;
        ASSERT_EQ(found.at(b).last_gc, table.at(b).gen) << b;
        ASSERT_EQ(found.prio(b), table.prio(b)) << b;
    }
}

TEST_F(PrioTableTest, CorruptMemberIsRefusedAndItsBucketNamed) {
    write();
    damage(40, 2000);
    const auto read_back = read(100);
    ASSERT_FALSE(read_back);
    EXPECT_EQ(read_back.error().code, Errc::corrupt);
    EXPECT_EQ(problem, "priority table: bad csum reading priorities in bucket 40");
}

TEST_F(PrioTableTest, MemberOfAnotherSetIsRefused) {
    write();
    ASSERT_TRUE(run(write_prio_table(*device, members, 5, kMagic + 1, table)));
    EXPECT_FALSE(read(100));
    EXPECT_EQ(problem, "priority table: bad magic reading priorities in bucket 100");
}

TEST_F(PrioTableTest, FirstBucketOutsideTheDataAreaIsRefused) {
    write();
    for (const std::uint64_t first :
         {std::uint64_t{0}, std::uint64_t{25}, std::uint64_t{3000}, ~std::uint64_t{0}}) {
        problem.clear();
        const auto read_back = read(first);
        ASSERT_FALSE(read_back) << first;
        EXPECT_EQ(read_back.error().code, Errc::corrupt);
        EXPECT_NE(problem.find("not a usable bucket"), std::string::npos) << problem;
    }
}

// The kernel leaves there what the bucket's previous table said.
TEST_F(PrioTableTest, NextBucketOfTheLastMemberIsNotFollowed) {
    write();
    io::Buffer bytes(4096);
    ASSERT_TRUE(run(read_bucket(2999, bytes)));
    ondisk::seal_prio_set(bytes.span(), 5, 0xdeadbeef, kMagic);
    ASSERT_TRUE(run(write_bucket(2999, bytes)));
    const auto read_back = read(100);
    ASSERT_TRUE(read_back) << problem;
    EXPECT_EQ(read_back->size(), 3u);
}

TEST_F(PrioTableTest, ChainThatLeavesTheDeviceIsRefused) {
    write();
    io::Buffer bytes(4096);
    ASSERT_TRUE(run(read_bucket(40, bytes)));
    ondisk::seal_prio_set(bytes.span(), 5, 5000, kMagic);
    ASSERT_TRUE(run(write_bucket(40, bytes)));
    EXPECT_FALSE(read(100));
    EXPECT_NE(problem.find("member 2 is said to be in bucket 5000"), std::string::npos) << problem;
}

TEST_F(PrioTableTest, LastMemberIsPaddedWithZeroes) {
    write();
    io::Buffer bytes(4096);
    ASSERT_TRUE(run(read_bucket(2999, bytes)));
    const auto entries = ondisk::prio_entries(bytes.span(), table.geometry());
    const std::size_t used = 3000 - 2 * 1352;
    for (std::size_t i = used; i < entries.size(); ++i) {
        ASSERT_EQ(entries[i].prio, 0u);
        ASSERT_EQ(entries[i].gen, 0u);
    }
}

}  // namespace
}  // namespace uc::alloc
