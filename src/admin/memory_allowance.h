// How much memory this process may use, so that a large index is kept on the disk and not in a
// memory that is not there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace uc::admin {

// The least of the machine's memory, the process's limits for data and address space, and the
// limits of its control groups. What cannot be found out does not limit.
std::uint64_t memory_allowance();

// The least limit of the control groups named in `membership`, the text of /proc/self/cgroup, and
// of the groups above them; `root` is where their file systems are mounted. The greatest value: no
// limit.
std::uint64_t control_group_limit(std::string_view membership, const std::filesystem::path& root);

// What of it the leaves of the index may take: 3/8, at most `wanted`. The rest is for
// requests under way, bucket tables and leaves that are being written.
std::uint64_t node_cache_limit(std::uint64_t wanted, std::uint64_t allowance);

}  // namespace uc::admin
