// An array with its superblock at the end (md versions 0.90 and 1.0) shows its contents at the
// start of each mirror half too, a bcache superblock included. Serving the half would tear the
// mirror apart. But an array inside the volume ends on the same sectors. What tells the two apart:
//
//   1.0   the superblock says at which sector of its device it lies; inside the volume that is less
//         by the data offset
//   0.90  it lies at a multiple of 64 KiB from the start of its device, and the data offset is none
#include "admin/member.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <array>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "admin/device_identity.h"

namespace uc::admin {

namespace {

constexpr std::uint32_t kMdMagic = 0xa92b4efc;

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t offset) {
    T value{};
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

struct MdHeader {
    std::uint32_t major_version = 0;
    std::uint64_t own_sector = 0;  // of version 1
};

// Nothing: there is none at `sector`.
Outcome<MdHeader> md_header(const BlockFile& file, std::uint64_t sector) {
    constexpr std::size_t kOwnSectorOffset = 144;
    std::array<std::byte, kSectorBytes> bytes{};
    const Result<std::size_t> got = file.read(sector * kSectorBytes, bytes);
    if (!got || *got != bytes.size() || number_at<std::uint32_t>(bytes, 0) != kMdMagic) {
        return tl::unexpected(std::string("no md superblock"));
    }
    return MdHeader{number_at<std::uint32_t>(bytes, 4),
                    number_at<std::uint64_t>(bytes, kOwnSectorOffset)};
}

std::filesystem::path sysfs_directory(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0 || !S_ISBLK(info.st_mode)) return {};
    return fmt::format("/sys/dev/block/{}:{}", major(info.st_rdev), minor(info.st_rdev));
}

Outcome<ondisk::Superblock> read_member_superblock(const std::string& path, const BlockFile& file) {
    std::vector<std::byte> bytes(ondisk::kSuperblockBytes);
    const Result<std::size_t> got = file.read(ondisk::kSuperblockSector * kSectorBytes, bytes);
    if (!got) return tl::unexpected(explain(path, got.error()));
    if (*got != bytes.size() || !ondisk::has_superblock_magic(bytes)) {
        return tl::unexpected(path + ": not a bcache device");
    }
    auto superblock = ondisk::decode_superblock(bytes, file.size_bytes() / kSectorBytes, 1);
    if (!superblock) return tl::unexpected(explain(path + ": superblock", superblock.error()));
    return std::move(*superblock);
}

}  // namespace

bool has_multipath_holder(const std::filesystem::path& device) {
    std::error_code error;
    for (const auto& holder : std::filesystem::directory_iterator(device / "holders", error)) {
        std::ifstream file(holder.path() / "dm" / "uuid");
        std::string uuid;
        if (file >> uuid && uuid.starts_with("mpath-")) return true;
    }
    return false;
}

bool is_md_member(const BlockFile& file) {
    constexpr std::uint64_t kOldAlignment = 128;
    const std::uint64_t sectors = file.size_bytes() / kSectorBytes;
    if (sectors < 2 * kOldAlignment) return false;
    const std::uint64_t at = (sectors - 16) / 8 * 8;
    const Outcome<MdHeader> current = md_header(file, at);
    if (current && current->major_version == 1 && current->own_sector == at) return true;
    const std::uint64_t old_at = sectors / kOldAlignment * kOldAlignment - kOldAlignment;
    const Outcome<MdHeader> old = md_header(file, old_at);
    return old && old->major_version == 0;
}

Outcome<Member> recognise_member(const std::string& path) {
    const std::string unfit = unfit_reason(path);
    if (!unfit.empty()) return tl::unexpected(fmt::format("{}: {}", path, unfit));
    std::string holder;
    const Result<BlockFile> file = BlockFile::open(path, BlockFile::Access::read, &holder);
    if (!file) return tl::unexpected(explain(path, file.error()));
    TRY(ondisk::Superblock superblock, read_member_superblock(path, *file));
    if (has_multipath_holder(sysfs_directory(path))) {
        return tl::unexpected(path +
                              ": one of several paths to a disk; the set is taken from its "
                              "multipath device");
    }
    if (is_md_member(*file)) {
        return tl::unexpected(path + ": member of an md array; the set is taken from the array");
    }
    return Member{path, std::move(superblock)};
}

}  // namespace uc::admin
