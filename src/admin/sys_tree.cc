#include "admin/sys_tree.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "admin/endpoint.h"

namespace uc::admin {

SysTree::SysTree(async::Executor& executor, io::UringReactor& reactor, ServedSet& served,
                 const SysTreeOptions& options, Log log)
    : executor_(executor),
      reactor_(reactor),
      options_(options),
      log_(log),
      content_(served, log),
      serving_(executor) {}

SysTree::~SysTree() = default;

Outcome<> SysTree::mount() {
    const std::string& directory = options_.directory;
    const Outcome<> there = check_parent(directory);
    if (!there) return there;
    constexpr mode_t kMode = 0755;
    if (::mkdir(directory.c_str(), kMode) != 0 && errno != EEXIST) {
        return tl::unexpected(
            fmt::format("{}: cannot be created: {}", directory, std::strerror(errno)));
    }
    std::string message;
    frontend::TreeOptions tree_options;
    tree_options.group = options_.group;
    auto mounted = frontend::TreeMount::mount(reactor_, executor_, directory, content_,
                                              tree_options, &message);
    if (!mounted) return tl::unexpected(message);
    mount_ = std::move(*mounted);
    return {};
}

Task<Outcome<>> SysTree::start() {
    if (options_.directory.empty()) co_return Outcome<>();
    const Outcome<> mounted = mount();
    if (mounted) {
        serving_.spawn(watch());
    } else if (options_.is_default) {
        log_(fmt::format("note: no control tree: {}", mounted.error()));
    } else {
        co_return tl::unexpected("--sys: " + mounted.error());
    }
    co_return Outcome<>();
}

// Ends before stop() only if somebody has unmounted the directory.
Task<void> SysTree::watch() {
    co_await mount_->serve();
    if (!stopping_) log_(options_.directory + ": was unmounted by somebody; the tree is gone");
}

Task<void> SysTree::stop() {
    stopping_ = true;
    if (mount_) mount_->stop();
    co_await serving_.drained();
    mount_.reset();
}

}  // namespace uc::admin
