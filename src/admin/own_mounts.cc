#include "admin/own_mounts.h"

#include <algorithm>
#include <deque>
#include <filesystem>

namespace uc::admin {

namespace fs = std::filesystem;

bool leads_into(const std::string& path, const std::vector<std::string>& directories) {
    constexpr int kMostLinks = 40;  // as the kernel
    std::error_code ignored;
    const fs::path wanted = fs::absolute(path, ignored).relative_path();
    std::deque<fs::path> parts(wanted.begin(), wanted.end());
    fs::path at = "/";
    int links = 0;
    while (!parts.empty() && links <= kMostLinks) {
        const fs::path part = parts.front();
        parts.pop_front();
        if (part.empty() || part == ".") continue;
        if (part == "..") {
            at = at.parent_path();
            continue;
        }
        const fs::path next = at / part;
        if (std::ranges::find(directories, next.string()) != directories.end()) return true;
        if (!fs::is_symlink(fs::symlink_status(next, ignored))) {
            at = next;
            continue;
        }
        ++links;
        const fs::path target = fs::read_symlink(next, ignored);
        if (target.is_absolute()) at = "/";
        const fs::path relative = target.relative_path();
        parts.insert(parts.begin(), relative.begin(), relative.end());
    }
    return false;
}

}  // namespace uc::admin
