// What already is on a device, as libblkid sees it: file systems, RAID members, partition tables.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace uc::admin {

struct Signature {
    std::string type;   // "ext4", "linux_raid_member", "gpt", ...
    std::string usage;  // "filesystem", "raid", "crypto", "other", "partition table"
    bool is_bcache() const { return type == "bcache"; }
};

// All signatures on the open device. Low-level probing: no cache file, no other devices.
Result<std::vector<Signature>> find_signatures(int fd);

// Erases them all (their magic bytes only), as `wipefs -a` does. Needs a writable descriptor.
Result<void> erase_signatures(int fd);

}  // namespace uc::admin
