// Which device or file a path means, so that one given under two names (a symbolic link, one of
// /dev/disk/by-id) is recognised.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace uc::admin {

struct DeviceIdentity {
    bool block = false;
    dev_t device = 0;  // of the block device itself, else of the file system that has the file
    ino_t inode = 0;   // 0 for block devices: one device has many nodes
    bool operator==(const DeviceIdentity&) const = default;
};

// Nullopt: it cannot be looked at; whoever opens it will say why.
std::optional<DeviceIdentity> identity_of(const std::string& path);

// Why a path can be no device of a set, e.g. "is a directory; ..."; empty if it may be one or
// cannot be looked at.
std::string unfit_reason(const std::string& path);

// Remembers devices and recognises them again.
class KnownDevices {
public:
    // The path under which the device is known already; else notes it, and returns nullptr.
    const std::string* meet(const std::string& path);
    // Nullptr: not known.
    const std::string* find(const std::string& path) const;

private:
    struct Known {
        DeviceIdentity identity;
        std::string path;
    };
    std::vector<Known> known_;
};

// "disk: was given twice", or "link: was given twice: it is the same device as disk".
std::string given_twice(const std::string& path, const std::string& known_as);

}  // namespace uc::admin
