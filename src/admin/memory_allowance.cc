// Control groups come in two versions, often both at once. Version 2 is one tree, `0::/a/b` in the
// membership; version 1 has a tree of its own for memory, `4:memory:/a/b`. A limit holds for
// everything below, so each group up to the root counts. In a container the path may be that of the
// host and not exist here; then the root of what is mounted is the container's own group.
#include "admin/memory_allowance.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

namespace uc::admin {

namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

std::uint64_t limit_in(const std::filesystem::path& file) {
    std::ifstream in(file);
    std::uint64_t limit = kNoLimit;
    return in >> limit ? limit : kNoLimit;  // "max" is no number
}

std::uint64_t least_limit(const std::filesystem::path& tree, std::string_view group,
                          const char* name) {
    std::filesystem::path path = (tree / std::filesystem::path(group).relative_path());
    std::uint64_t least = limit_in(tree / name);
    const auto levels = std::distance(tree.begin(), tree.end());
    while (std::distance(path.begin(), path.end()) > levels) {
        least = std::min(least, limit_in(path / name));
        path = path.parent_path();
    }
    return least;
}

std::uint64_t process_limit(decltype(RLIMIT_DATA) resource) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
    return limit.rlim_cur;
}

std::uint64_t machine_memory() {
    struct sysinfo info {};
    if (sysinfo(&info) != 0) return kNoLimit;
    return std::uint64_t{info.totalram} * info.mem_unit;
}

}  // namespace

std::uint64_t control_group_limit(std::string_view membership, const std::filesystem::path& root) {
    std::uint64_t least = kNoLimit;
    while (!membership.empty()) {
        const std::size_t end = std::min(membership.find('\n'), membership.size());
        const std::string_view line = membership.substr(0, end);
        membership.remove_prefix(std::min(end + 1, membership.size()));
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (first == std::string_view::npos || second == std::string_view::npos) continue;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const std::string_view group = line.substr(second + 1);
        if (controllers.empty()) {
            least = std::min(least, least_limit(root, group, "memory.max"));
        } else if (controllers == "memory") {
            least = std::min(least, least_limit(root / "memory", group, "memory.limit_in_bytes"));
        }
    }
    return least;
}

std::uint64_t memory_allowance() {
    std::ifstream in("/proc/self/cgroup");
    const std::string membership{std::istreambuf_iterator<char>(in), {}};
    return std::min({machine_memory(), process_limit(RLIMIT_DATA), process_limit(RLIMIT_AS),
                     control_group_limit(membership, "/sys/fs/cgroup")});
}

std::uint64_t node_cache_limit(std::uint64_t wanted, std::uint64_t allowance) {
    return std::min(wanted, allowance / 8 * 3);
}

}  // namespace uc::admin
