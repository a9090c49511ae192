#include "admin/device_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace uc::admin {

std::optional<DeviceIdentity> identity_of(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return std::nullopt;
    if (S_ISBLK(info.st_mode)) return DeviceIdentity{true, info.st_rdev, 0};
    return DeviceIdentity{false, info.st_dev, info.st_ino};
}

std::string unfit_reason(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return {};
    if (S_ISBLK(info.st_mode) || S_ISREG(info.st_mode)) return {};
    const char* kind = "is something else";
    if (S_ISDIR(info.st_mode)) kind = "is a directory";
    if (S_ISCHR(info.st_mode)) kind = "is a character device";
    if (S_ISFIFO(info.st_mode)) kind = "is a pipe";
    if (S_ISSOCK(info.st_mode)) kind = "is a socket";
    return fmt::format("{}; a block device or an image file is expected", kind);
}

const std::string* KnownDevices::meet(const std::string& path) {
    if (const std::string* known = find(path)) return known;
    if (const auto identity = identity_of(path)) known_.push_back({*identity, path});
    return nullptr;
}

const std::string* KnownDevices::find(const std::string& path) const {
    const auto identity = identity_of(path);
    if (!identity) return nullptr;
    for (const Known& known : known_) {
        if (known.identity == *identity) return &known.path;
    }
    return nullptr;
}

std::string given_twice(const std::string& path, const std::string& known_as) {
    if (path == known_as) return fmt::format("{}: was given twice", path);
    return fmt::format("{}: was given twice: it is the same device as {}", path, known_as);
}

}  // namespace uc::admin
