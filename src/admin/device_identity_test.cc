#include "admin/device_identity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace uc::admin {
namespace {

namespace fs = std::filesystem;

class DeviceIdentityTest : public ::testing::Test {
protected:
    DeviceIdentityTest() {
        fs::create_directories(dir_);
        for (const char* name : {"a", "b"}) std::ofstream(dir_ / name) << name;
    }
    ~DeviceIdentityTest() override { fs::remove_all(dir_); }
    std::string path(const char* name) const { return (dir_ / name).string(); }

    fs::path dir_ = fs::temp_directory_path() / ("uc-identity-" + std::to_string(getpid()));
};

TEST_F(DeviceIdentityTest, SeesThroughLinksAndSpellings) {
    fs::create_symlink("a", dir_ / "symbolic");
    fs::create_hard_link(dir_ / "a", dir_ / "hard");
    KnownDevices known;
    EXPECT_EQ(known.meet(path("a")), nullptr);
    EXPECT_EQ(known.meet(path("b")), nullptr);
    for (const char* same : {"a", "symbolic", "hard", "./a"}) {
        const std::string* found = known.meet(path(same));
        ASSERT_NE(found, nullptr) << same;
        EXPECT_EQ(*found, path("a"));
    }
}

TEST_F(DeviceIdentityTest, LeavesWhatIsMissingToWhoOpensIt) {
    KnownDevices known;
    EXPECT_EQ(known.meet(path("missing")), nullptr);
    EXPECT_EQ(known.meet(path("missing")), nullptr);
    EXPECT_EQ(unfit_reason(path("missing")), "");
}

TEST_F(DeviceIdentityTest, TellsWhatCannotBeADevice) {
    EXPECT_EQ(unfit_reason(path("a")), "");
    EXPECT_EQ(unfit_reason(dir_.string()),
              "is a directory; a block device or an image file is expected");
    EXPECT_EQ(unfit_reason("/dev/null"),
              "is a character device; a block device or an image file is expected");
}

}  // namespace
}  // namespace uc::admin
