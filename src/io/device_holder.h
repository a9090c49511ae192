// Who keeps us from opening a device: best-effort words for an error message, from /proc and /sys.
#pragma once

#include <sys/types.h>

#include <string>

namespace uc::io {

// For a block device that refuses O_EXCL, e.g. "mounted on /srv" or "held by dm-3 (vg-data)".
std::string describe_block_holder(dev_t device);

// For a file that somebody has locked, e.g. "locked by process 4711 (ubcache)".
std::string describe_file_locker(dev_t file_system, ino_t inode);

// The loop device that shows this file, e.g. "/dev/loop0"; empty if there is none. Known by the
// path alone, since looking at the files behind other loop devices may wait for ourselves.
std::string loop_device_on(const std::string& path);

// The file behind a loop device or a partition of one; empty for other devices.
std::string file_behind(dev_t device);

}  // namespace uc::io
