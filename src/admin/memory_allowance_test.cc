#include "admin/memory_allowance.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <string>

namespace uc::admin {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// A tree of control groups with the limits that a test gives them.
class MemoryAllowance : public testing::Test {
protected:
    MemoryAllowance()
        : root_(std::filesystem::path(testing::TempDir()) /
                ("groups-" + std::to_string(getpid()))) {}
    ~MemoryAllowance() override { std::filesystem::remove_all(root_); }

    void limit(const std::string& file, const std::string& text) {
        const std::filesystem::path path = root_ / file;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text << "\n";
    }

    std::filesystem::path root_;
};

TEST_F(MemoryAllowance, IsTheLeastOfAControlGroupAndThoseAboveIt) {
    limit("a/memory.max", "300");
    limit("a/b/memory.max", "max");
    limit("a/b/c/memory.max", "500");
    EXPECT_EQ(control_group_limit("0::/a/b/c\n", root_), 300U);
    EXPECT_EQ(control_group_limit("0::/a/b\n", root_), 300U);
    limit("a/b/c/memory.max", "200");
    EXPECT_EQ(control_group_limit("0::/a/b/c\n", root_), 200U);
}

TEST_F(MemoryAllowance, KnowsBothVersionsOfControlGroups) {
    limit("memory/x/memory.limit_in_bytes", "700");
    limit("y/memory.max", "900");
    EXPECT_EQ(control_group_limit("5:pids:/x\n4:memory:/x\n0::/\n", root_), 700U);
    EXPECT_EQ(control_group_limit("4:memory:/\n0::/y\n", root_), 900U);
}

TEST_F(MemoryAllowance, TakesTheGroupOfAContainerFromItsRoot) {
    limit("memory.max", "400");
    EXPECT_EQ(control_group_limit("0::/not/seen/from/here\n", root_), 400U);
}

TEST_F(MemoryAllowance, IsNotLimitedByWhatIsNotThereOrNonsense) {
    EXPECT_EQ(control_group_limit("", root_), kNoLimit);
    EXPECT_EQ(control_group_limit("nonsense\n0::/a\n:\n::", root_), kNoLimit);
    limit("a/memory.max", "many");
    EXPECT_EQ(control_group_limit("0::/a", root_), kNoLimit);
}

TEST_F(MemoryAllowance, FollowsTheLimitOfTheProcess) {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "the sanitizer's shadow counts as data: nothing can be mapped below the limit";
#endif
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
    rlimit lower = before;
    lower.rlim_cur = rlim_t{1} << 30;
    ASSERT_EQ(setrlimit(RLIMIT_DATA, &lower), 0);
    EXPECT_LE(memory_allowance(), std::uint64_t{1} << 30);
    EXPECT_GT(memory_allowance(), 0U);
    ASSERT_EQ(setrlimit(RLIMIT_DATA, &before), 0);
}

TEST_F(MemoryAllowance, GivesTheIndexThreeEighthsAtMost) {
    EXPECT_EQ(node_cache_limit(256, 256), 96U);
    EXPECT_EQ(node_cache_limit(256, 2000), 256U);
    EXPECT_EQ(node_cache_limit(256, kNoLimit), 256U);
}

}  // namespace
}  // namespace uc::admin
