// Where the control tree is mounted, and its life beside the daemon's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "admin/control_tree.h"
#include "admin/outcome.h"
#include "admin/served_set.h"
#include "async/sync.h"
#include "frontend/tree_mount.h"
#include "io/uring_reactor.h"

namespace uc::admin {

inline constexpr const char* kDefaultSysPath = "/run/ubcache/sys";

struct SysTreeOptions {
    std::string directory;       // empty: none
    bool is_default = false;     // nobody has asked for it: a failure is only noted
    std::optional<gid_t> group;  // may read it, besides the owner
};

class SysTree {
public:
    using Log = std::function<void(const std::string&)>;

    SysTree(async::Executor& executor, io::UringReactor& reactor, ServedSet& served,
            const SysTreeOptions& options, Log log);
    ~SysTree();

    // After the set was opened.
    Task<Outcome<>> start();
    // Before the set is stopped; ends when nobody uses it.
    Task<void> stop();

private:
    Outcome<> mount();
    Task<void> watch();

    async::Executor& executor_;
    io::UringReactor& reactor_;
    const SysTreeOptions& options_;
    Log log_;
    ControlTree content_;
    std::unique_ptr<frontend::TreeMount> mount_;
    async::TaskGroup serving_;
    bool stopping_ = false;
};

}  // namespace uc::admin
