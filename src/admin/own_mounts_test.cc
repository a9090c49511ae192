#include "admin/own_mounts.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

namespace uc::admin {
namespace {

namespace fs = std::filesystem;

class OwnMounts : public testing::Test {
protected:
    OwnMounts() {
        std::string name = (fs::temp_directory_path() / "own_mounts_XXXXXX").string();
        directory = fs::canonical(mkdtemp(name.data()));
        fs::create_directories(directory / "mount/below");
        fs::create_directories(directory / "beside");
    }
    ~OwnMounts() override { fs::remove_all(directory); }
    bool leads(const fs::path& path) {
        return leads_into((directory / path).string(), {(directory / "mount").string()});
    }
    fs::path directory;
};

TEST_F(OwnMounts, HoldThemselvesAndWhatIsBelow) {
    EXPECT_TRUE(leads("mount"));
    EXPECT_TRUE(leads("mount/below/file"));
    EXPECT_TRUE(leads("beside/../mount/file"));
    EXPECT_FALSE(leads("beside/mount"));
    EXPECT_FALSE(leads("mountain"));
    EXPECT_FALSE(leads("missing/file"));
}

TEST_F(OwnMounts, AreFoundBehindLinks) {
    fs::create_symlink("../mount/below", directory / "beside/link");
    fs::create_symlink(directory / "beside", directory / "there");
    EXPECT_TRUE(leads("there/link/file"));
    EXPECT_FALSE(leads("there/file"));
}

TEST_F(OwnMounts, LinksInACircleEnd) {
    fs::create_symlink("circle", directory / "circle");
    EXPECT_FALSE(leads("circle/file"));
}

}  // namespace
}  // namespace uc::admin
