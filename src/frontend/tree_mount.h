// A tree of small text files in a FUSE file system, with the manners of sysfs: what is read is
// made when it is read, a write is a command, and its errno is the result. Runs on the reactor's
// thread.
//
// Life: mount() -> serve() spawned -> ... -> stop() -> the task of serve() ends.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/executor.h"
#include "async/task.h"
#include "base/result.h"
#include "io/uring_reactor.h"

namespace uc::frontend {

struct TreeEntry {
    enum class Kind : std::uint8_t { directory, file, link };
    Kind kind = Kind::file;
    unsigned mode = 0444;  // of files
    std::string target;    // of links
};

// What is in the tree. Paths have no slash at either end; the root is "".
class TreeContent {
public:
    virtual ~TreeContent() = default;
    virtual std::optional<TreeEntry> find(const std::string& path) = 0;
    virtual std::vector<std::string> list(const std::string& directory) = 0;
    // With the newline at its end.
    virtual std::string read(const std::string& file) = 0;
    // 0, or an errno.
    virtual Task<int> write(std::string file, std::string text) = 0;
};

struct TreeOptions {
    // Besides the owner of the mount, members of this group can read. None: nobody else.
    std::optional<gid_t> group;
};

class TreeMount {
public:
    // Longer writes fail with EINVAL, as in sysfs.
    static constexpr std::size_t kMaxWrite = 4096;

    // Errors as in FuseExport::mount(). `content` outlives it.
    static Result<std::unique_ptr<TreeMount>> mount(io::UringReactor& reactor,
                                                    async::Executor& executor,
                                                    const std::string& dir, TreeContent& content,
                                                    TreeOptions options, std::string* message);
    ~TreeMount();
    TreeMount(const TreeMount&) = delete;
    TreeMount& operator=(const TreeMount&) = delete;

    // Serves until stop() or until somebody unmounts; writes under way are ended first. Once.
    Task<void> serve();
    void stop();

    struct State;

private:
    explicit TreeMount(std::unique_ptr<State> state);

    std::unique_ptr<State> state_;
};

}  // namespace uc::frontend
