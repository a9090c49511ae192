// Is a device a member of a cache set, and of which? Answered from its own superblock, not from
// libblkid: that calls a device ambivalent as soon as what lies in the volume leaves a second
// signature at the end of the disk (ZFS labels, an md superblock), and then names nothing.
#pragma once

#include <filesystem>
#include <string>

#include "admin/block_file.h"
#include "admin/outcome.h"
#include "ondisk/superblock.h"

namespace uc::admin {

struct Member {
    std::string path;
    ondisk::Superblock superblock;
};

// The error says why the device is none: no (sound) superblock, one path of several to a disk, or a
// member of an md array that has the superblock within.
Outcome<Member> recognise_member(const std::string& path);

// The parts, for tests.

// `device`: a block device's directory in sysfs. True: a multipath map uses it, and the set belongs
// on the map.
bool has_multipath_holder(const std::filesystem::path& device);
// An md superblock at the end that was made for this very device, and not for what lies in its
// volume, which ends at the same place.
bool is_md_member(const BlockFile& file);

}  // namespace uc::admin
