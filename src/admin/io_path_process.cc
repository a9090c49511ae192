// A volume may hold the file system that this process's own code or the swap space is on. When
// memory is short the kernel writes dirty pages to the volume and waits; if this process then waits
// for memory, all stop. Locked memory cannot be taken away; the flusher flag keeps the kernel from
// starting such writes in allocations that it makes for us.
//
// MCL_ONFAULT: pages are locked when they are first touched. Without it every reserved address
// range would be filled at once, stacks of threads included.
//
// A limit on locked memory (RLIMIT_MEMLOCK) would not only refuse the call: once locked, every
// later allocation beyond it fails. So memory is locked only without a limit, or with a privilege
// that lifts it.
#include "admin/io_path_process.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

namespace uc::admin {

namespace {

constexpr unsigned kCapIpcLock = 14;  // linux/capability.h

bool has_capability(unsigned number) {
    std::ifstream in("/proc/self/status");
    std::string line;
    while (std::getline(in, line)) {
        if (!line.starts_with("CapEff:")) continue;
        return (std::strtoull(line.c_str() + 7, nullptr, 16) >> number & 1) != 0;
    }
    return false;
}

// Empty, or why not.
std::string lock_memory() {
    rlimit limit{};
    const bool unlimited =
        getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
    if (!unlimited && !has_capability(kCapIpcLock)) {
        return fmt::format("memory is not locked (LimitMEMLOCK=infinity permits it, it is {} now)",
                           static_cast<std::uint64_t>(limit.rlim_cur));
    }
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0) return {};
    return fmt::format("memory is not locked ({})", std::strerror(errno));
}

std::string set_flusher() {
    if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0) return {};
    if (errno == EPERM) return "the kernel does not know it as an I/O process (CAP_SYS_RESOURCE)";
    return fmt::format("the kernel does not know it as an I/O process ({})", std::strerror(errno));
}

}  // namespace

std::string join_io_path() {
    const std::string lock = lock_memory();
    const std::string flusher = set_flusher();
    if (lock.empty() && flusher.empty()) return {};
    const char* const both = !lock.empty() && !flusher.empty() ? ", and " : "";
    return fmt::format(
        "note: {}{}{}: with little memory left, a file system or swap space on a volume of this "
        "daemon may stall",
        lock, both, flusher);
}

}  // namespace uc::admin
