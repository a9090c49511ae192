// What is known of a set before and while it is served: a directory below /run/ubcache with a
// symbolic link for each member that has appeared, made by `ubcache assemble`, and the sockets of
// the daemon.
//
//   /run/ubcache/SET/cache          -> /dev/nvme0n1p4
//   /run/ubcache/SET/backing-UUID   -> /dev/sdb
//   /run/ubcache/SET/without-cache     the time to wait for the cache is over
//   /run/ubcache/SET/control.sock, nbd.sock
//
// And what the administrator has said of it: a set is ubcache's only if /etc/ubcache/SET.conf is
// there, be it empty; all others are left to the kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "admin/member.h"
#include "admin/outcome.h"
#include "ondisk/uuid.h"

namespace uc::admin {

inline constexpr const char* kRunDirectory = "/run/ubcache";
inline constexpr const char* kConfigDirectory = "/etc/ubcache";

class SetDirectory {
public:
    // `run`: kRunDirectory, or another one for tests and for users without root.
    SetDirectory(const std::string& run, const ondisk::Uuid& set);

    // Replaces what was known of that member.
    Outcome<> record(const Member& member) const;
    // Paths of members that are there now and belong to the set; others are passed over.
    std::optional<std::string> cache() const;
    std::vector<std::string> backings() const;
    std::vector<ondisk::Uuid> noted_backings() const;  // there or not
    std::optional<std::string> backing(const ondisk::Uuid& uuid) const;
    // Backing devices may be served though the cache is missing; until that appears.
    Outcome<> allow_alone() const;
    bool alone_allowed() const;
    std::string control() const { return path_ + "/control.sock"; }
    // A daemon answers on the control socket.
    bool is_served() const;

private:
    std::optional<Member> member_at(const std::string& name) const;

    std::string path_;
    ondisk::Uuid set_;
};

// The settings of SET.conf, a file of shell assignments, that matter before the daemon runs.
struct SetConfig {
    // Seconds after which a clean backing device is started though the cache is missing; not set:
    // never.
    std::optional<std::uint32_t> alone_after_s;
};

// Nothing: the set is not ubcache's. The error is about what cannot be understood.
Outcome<std::optional<SetConfig>> read_set_config(const std::string& directory,
                                                  const ondisk::Uuid& set);

}  // namespace uc::admin
