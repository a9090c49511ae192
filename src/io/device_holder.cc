#include "io/device_holder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace uc::io {

namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
    std::string line;
    std::ifstream in(path);
    std::getline(in, line);
    return line;
}

std::vector<fs::path> entries(const fs::path& directory) {
    std::vector<fs::path> found;
    std::error_code ignored;
    for (fs::directory_iterator it(directory, ignored), end; !ignored && it != end;
         it.increment(ignored)) {
        found.push_back(it->path());
    }
    return found;
}

// "254:3" of the device itself and of its partitions.
std::vector<std::string> numbers_of(const fs::path& device) {
    std::vector<std::string> numbers{first_line(device / "dev")};
    for (const fs::path& child : entries(device)) {
        std::error_code ignored;
        if (fs::exists(child / "partition", ignored)) numbers.push_back(first_line(child / "dev"));
    }
    return numbers;
}

std::string stacked_device(const std::string& number) {
    for (const fs::path& holder : entries(fs::path("/sys/dev/block") / number / "holders")) {
        const std::string mapped_name = first_line(holder / "dm/name");
        const std::string name = holder.filename().string();
        return mapped_name.empty() ? name : fmt::format("{} ({})", name, mapped_name);
    }
    return {};
}

// mountinfo lines: id, parent, major:minor, root, mount point, ...
std::string mount_point(const std::string& number) {
    std::ifstream in("/proc/self/mountinfo");
    for (std::string line; std::getline(in, line);) {
        std::istringstream fields(line);
        std::string id, parent, device, root, point;
        if (fields >> id >> parent >> device >> root >> point && device == number) return point;
    }
    return {};
}

bool is_swap(const std::string& number) {
    std::ifstream in("/proc/swaps");
    for (std::string line; std::getline(in, line);) {
        const std::string path = line.substr(0, line.find_first_of(" \t"));
        struct stat status {};
        if (::stat(path.c_str(), &status) != 0 || !S_ISBLK(status.st_mode)) continue;
        if (fmt::format("{}:{}", major(status.st_rdev), minor(status.st_rdev)) == number) {
            return true;
        }
    }
    return false;
}

}  // namespace

std::string describe_block_holder(dev_t device) {
    const fs::path self =
        fs::path("/sys/dev/block") / fmt::format("{}:{}", major(device), minor(device));
    for (const std::string& number : numbers_of(self)) {
        if (const std::string point = mount_point(number); !point.empty()) {
            return "mounted on " + point;
        }
        if (const std::string holder = stacked_device(number); !holder.empty()) {
            return "held by " + holder;
        }
        if (is_swap(number)) return "in use as swap";
    }
    return "another process has it open exclusively";
}

// Lines: "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF".
std::string describe_file_locker(dev_t file_system, ino_t inode) {
    const std::string wanted =
        fmt::format("{:02x}:{:02x}:{}", major(file_system), minor(file_system), inode);
    std::ifstream in("/proc/locks");
    for (std::string line; std::getline(in, line);) {
        std::istringstream fields(line);
        std::string number, type, strength, mode, pid, file;
        if (!(fields >> number >> type >> strength >> mode >> pid >> file)) continue;
        if (type != "FLOCK" || file != wanted) continue;
        const std::string program = first_line(fs::path("/proc") / pid / "comm");
        if (program.empty()) return fmt::format("locked by process {}", pid);
        return fmt::format("locked by process {} ({})", pid, program);
    }
    return "locked by another process";
}

std::string loop_device_on(const std::string& path) {
    std::error_code error;
    const std::string wanted = fs::canonical(path, error).string();
    if (error) return {};
    for (const fs::path& device : entries("/sys/block")) {
        if (first_line(device / "loop/backing_file") == wanted) {
            return "/dev/" + device.filename().string();
        }
    }
    return {};
}

std::string file_behind(dev_t device) {
    const fs::path self =
        fs::path("/sys/dev/block") / fmt::format("{}:{}", major(device), minor(device));
    const std::string own = first_line(self / "loop/backing_file");
    return own.empty() ? first_line(self / "../loop/backing_file") : own;
}

}  // namespace uc::io
