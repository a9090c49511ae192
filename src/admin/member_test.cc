#include "admin/member.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace uc::admin {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSectors = 4096;
constexpr std::uint64_t kDataOffset = 16;
constexpr std::uint32_t kMdMagic = 0xa92b4efc;

class MemberTest : public testing::Test {
protected:
    MemberTest() {
        std::string name = fs::temp_directory_path() / "ubcache-member-XXXXXX";
        directory_ = mkdtemp(name.data());
        path_ = directory_ / "device";
        std::ofstream(path_).close();
        fs::resize_file(path_, kSectors * kSectorBytes);
    }
    ~MemberTest() override { fs::remove_all(directory_); }

    // As md writes it: `own_sector` counts from the start of the device that the array is on.
    void put_md(std::uint64_t sector, std::uint32_t version, std::uint64_t own_sector) {
        std::vector<char> bytes(kSectorBytes);
        std::memcpy(bytes.data(), &kMdMagic, sizeof kMdMagic);
        std::memcpy(bytes.data() + 4, &version, sizeof version);
        std::memcpy(bytes.data() + 144, &own_sector, sizeof own_sector);
        std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(sector * kSectorBytes));
        file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    bool is_md() {
        std::string holder;
        const auto file = BlockFile::open(path_.string(), BlockFile::Access::read, &holder);
        return is_md_member(*file);
    }
    void add_holder(const std::string& name, const std::string& dm_uuid) {
        fs::create_directories(directory_ / "holders" / name / "dm");
        std::ofstream(directory_ / "holders" / name / "dm" / "uuid") << dm_uuid << "\n";
    }

    fs::path directory_;
    fs::path path_;
};

TEST_F(MemberTest, MirrorHalfIsNoMember) {
    EXPECT_FALSE(is_md());
    put_md(kSectors - 16, 1, kSectors - 16);
    EXPECT_TRUE(is_md());
}

TEST_F(MemberTest, ArrayInsideTheVolumeDoesNotHideItsBackingDevice) {
    put_md(kSectors - 16, 1, kSectors - 16 - kDataOffset);
    EXPECT_FALSE(is_md());
}

TEST_F(MemberTest, OldSuperblocksCountOnlyAtTheirOwnPlace) {
    put_md(kSectors - 128 + kDataOffset, 0, 0);
    EXPECT_FALSE(is_md());
    put_md(kSectors - 128, 0, 0);
    EXPECT_TRUE(is_md());
}

TEST_F(MemberTest, PathOfAMultipathMapIsRecognised) {
    EXPECT_FALSE(has_multipath_holder(directory_));
    add_holder("dm-0", "LVM-abc");
    EXPECT_FALSE(has_multipath_holder(directory_));
    add_holder("dm-1", "mpath-36001405");
    EXPECT_TRUE(has_multipath_holder(directory_));
}

TEST_F(MemberTest, BlankDeviceSaysThatItIsNone) {
    const Outcome<Member> member = recognise_member(path_.string());
    ASSERT_FALSE(member);
    EXPECT_EQ(member.error(), path_.string() + ": not a bcache device");
}

}  // namespace
}  // namespace uc::admin
