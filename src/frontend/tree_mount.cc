// The kernel knows files by numbers, the content by paths: a path gets a number when it is first
// looked up and keeps it. There are some hundred of them.
//
// Files claim 4096 bytes, as in sysfs, and are opened for direct I/O, so that readers get what
// there is. A reader's text is made when it reads from the start, and kept for it until it closes.
#include "frontend/tree_mount.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "async/sync.h"
#include "base/check.h"
#include "frontend/fuse_session.h"

namespace uc::frontend {

struct TreeMount::State {
    State(io::UringReactor& with_reactor, async::Executor& executor, TreeContent& with_content,
          TreeOptions with_options)
        : reactor(with_reactor), content(with_content), options(with_options), writes(executor) {}

    io::UringReactor& reactor;
    TreeContent& content;
    TreeOptions options;
    async::TaskGroup writes;
    std::vector<std::string> paths{std::string()};  // number - 1
    std::map<std::string, fuse_ino_t> numbers{{std::string(), FUSE_ROOT_ID}};
    std::map<std::uint64_t, std::string> texts;  // by handle
    std::uint64_t next_handle = 1;
    std::vector<std::byte> received;
    FuseSession session;
    bool serving = false;
    bool stopping = false;

    fuse_ino_t number_of(const std::string& path) {
        const auto [at, fresh] = numbers.try_emplace(path, paths.size() + 1);
        if (fresh) paths.push_back(path);
        return at->second;
    }
};

namespace {

using State = TreeMount::State;

constexpr int kRequestsPerTurn = 64;
constexpr off_t kFileBytes = 4096;
// Names come and go with volumes, so nothing is kept.
constexpr double kKeepSeconds = 0;

State& state_of(fuse_req_t request) {
    return *static_cast<State*>(fuse_req_userdata(request));
}

// Null: no such number.
const std::string* path_of(State& state, fuse_ino_t ino) {
    return ino == 0 || ino > state.paths.size() ? nullptr : &state.paths[ino - 1];
}

struct stat attributes_of(State& state, const std::string& path, const TreeEntry& entry) {
    struct stat out {};
    out.st_ino = state.number_of(path);
    out.st_nlink = 1;
    out.st_uid = ::geteuid();
    out.st_gid = state.options.group.value_or(::getegid());
    switch (entry.kind) {
        case TreeEntry::Kind::directory:
            out.st_mode = S_IFDIR | 0755;
            out.st_nlink = 2;
            break;
        case TreeEntry::Kind::link:
            out.st_mode = S_IFLNK | 0777;
            out.st_size = static_cast<off_t>(entry.target.size());
            return out;
        case TreeEntry::Kind::file:
            out.st_mode = S_IFREG | entry.mode;
            out.st_size = kFileBytes;
            break;
    }
    if (state.options.group) out.st_mode &= ~07u;
    return out;
}

std::string join(const std::string& directory, const char* name) {
    return directory.empty() ? std::string(name) : directory + "/" + name;
}

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
    State& state = state_of(request);
    const std::string* directory = path_of(state, parent);
    const std::string path = directory == nullptr ? std::string() : join(*directory, name);
    const std::optional<TreeEntry> found =
        directory == nullptr ? std::nullopt : state.content.find(path);
    if (!found) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    fuse_entry_param entry{};
    entry.attr = attributes_of(state, path, *found);
    entry.ino = entry.attr.st_ino;
    entry.attr_timeout = kKeepSeconds;
    entry.entry_timeout = kKeepSeconds;
    fuse_reply_entry(request, &entry);
}

void reply_attributes(fuse_req_t request, fuse_ino_t ino) {
    State& state = state_of(request);
    const std::string* path = path_of(state, ino);
    const std::optional<TreeEntry> found =
        path == nullptr ? std::nullopt : state.content.find(*path);
    if (!found) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    const struct stat out = attributes_of(state, *path, *found);
    fuse_reply_attr(request, &out, kKeepSeconds);
}

void on_getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
    reply_attributes(request, ino);
}

// `echo 1 > file` truncates first, which means nothing here.
void on_setattr(fuse_req_t request, fuse_ino_t ino, struct stat*, int what, fuse_file_info*) {
    if ((what & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
        fuse_reply_err(request, EPERM);
        return;
    }
    reply_attributes(request, ino);
}

void on_readlink(fuse_req_t request, fuse_ino_t ino) {
    State& state = state_of(request);
    const std::string* path = path_of(state, ino);
    const std::optional<TreeEntry> found =
        path == nullptr ? std::nullopt : state.content.find(*path);
    if (!found || found->kind != TreeEntry::Kind::link) {
        fuse_reply_err(request, found ? EINVAL : ENOENT);
        return;
    }
    fuse_reply_readlink(request, found->target.c_str());
}

void on_readdir(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t from, fuse_file_info*) {
    State& state = state_of(request);
    const std::string* directory = path_of(state, ino);
    if (directory == nullptr || !state.content.find(*directory)) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    const std::string path = *directory;  // numbering below may move the strings
    std::vector<std::string> names{".", ".."};
    const std::vector<std::string> listed = state.content.list(path);
    names.insert(names.end(), listed.begin(), listed.end());
    std::vector<char> out(size);
    std::size_t used = 0;
    for (auto at = static_cast<std::size_t>(from); at < names.size(); ++at) {
        struct stat info {};
        info.st_mode = S_IFDIR;
        info.st_ino = ino;
        if (at >= 2) {
            const std::string child = join(path, names[at].c_str());
            const std::optional<TreeEntry> entry = state.content.find(child);
            if (!entry) continue;
            info = attributes_of(state, child, *entry);
        }
        const std::size_t needed =
            fuse_add_direntry(request, out.data() + used, out.size() - used, names[at].c_str(),
                              &info, static_cast<off_t>(at + 1));
        if (needed > out.size() - used) break;
        used += needed;
    }
    fuse_reply_buf(request, out.data(), used);
}

void on_open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
    State& state = state_of(request);
    const std::string* path = path_of(state, ino);
    if (path == nullptr || !state.content.find(*path)) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    info->fh = state.next_handle++;
    info->direct_io = 1;
    // Closing must not fail for whoever has just written "stop".
    info->noflush = 1;
    state.texts.emplace(info->fh, std::string());
    // Interrupted: nobody will close it.
    if (fuse_reply_open(request, info) != 0) state.texts.erase(info->fh);
}

void on_release(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
    state_of(request).texts.erase(info->fh);
    fuse_reply_err(request, 0);
}

void on_read(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset,
             fuse_file_info* info) {
    State& state = state_of(request);
    const std::string* path = path_of(state, ino);
    const auto text = state.texts.find(info->fh);
    if (path == nullptr || text == state.texts.end() || !state.content.find(*path)) {
        fuse_reply_err(request, ENODEV);  // the volume has gone
        return;
    }
    if (offset == 0) text->second = state.content.read(*path);
    const auto at = std::min(static_cast<std::size_t>(offset), text->second.size());
    fuse_reply_buf(request, text->second.data() + at, std::min(size, text->second.size() - at));
}

Task<void> write_and_reply(State& state, fuse_req_t request, std::string path, std::string text) {
    const std::size_t bytes = text.size();
    const int error = co_await state.content.write(std::move(path), std::move(text));
    if (error != 0) {
        fuse_reply_err(request, error);
    } else {
        fuse_reply_write(request, bytes);
    }
}

void on_write(fuse_req_t request, fuse_ino_t ino, const char* data, std::size_t size, off_t,
              fuse_file_info*) {
    State& state = state_of(request);
    const std::string* path = path_of(state, ino);
    const std::optional<TreeEntry> found =
        path == nullptr ? std::nullopt : state.content.find(*path);
    if (!found || size > TreeMount::kMaxWrite) {
        fuse_reply_err(request, found ? EINVAL : ENODEV);
        return;
    }
    state.writes.spawn(write_and_reply(state, request, *path, std::string(data, size)));
}

// The kernel refuses to hand over requests if there is no room for the largest one.
constexpr unsigned kLargestRequest = 64 << 10;
constexpr std::size_t kReceiveBytes = std::size_t{kLargestRequest} + 4096;

void on_init(void*, fuse_conn_info* connection) {
    connection->max_write = kLargestRequest;
    connection->want &= ~unsigned{FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
                                  FUSE_CAP_SPLICE_MOVE | FUSE_CAP_ATOMIC_O_TRUNC};
}

const fuse_lowlevel_ops& operations() {
    static const fuse_lowlevel_ops table = [] {
        fuse_lowlevel_ops out{};
        out.init = on_init;
        out.lookup = on_lookup;
        out.getattr = on_getattr;
        out.setattr = on_setattr;
        out.readlink = on_readlink;
        out.readdir = on_readdir;
        out.open = on_open;
        out.release = on_release;
        out.read = on_read;
        out.write = on_write;
        return out;
    }();
    return table;
}

}  // namespace

TreeMount::TreeMount(std::unique_ptr<State> state) : state_(std::move(state)) {}

TreeMount::~TreeMount() {
    CHECK(!state_->serving);
}

Result<std::unique_ptr<TreeMount>> TreeMount::mount(io::UringReactor& reactor,
                                                    async::Executor& executor,
                                                    const std::string& dir, TreeContent& content,
                                                    TreeOptions options, std::string* message) {
    auto state = std::make_unique<State>(reactor, executor, content, options);
    state->received.resize(kReceiveBytes);
    TRY_OK(
        state->session.mount(dir, operations(), state.get(), options.group.has_value(), message));
    return std::unique_ptr<TreeMount>(new TreeMount(std::move(state)));
}

Task<void> TreeMount::serve() {
    State& state = *state_;
    state.serving = true;
    while (!state.stopping && state.session.alive()) {
        const Result<std::size_t> ready =
            co_await state.reactor.poll(state.session.poll_fd(), POLLIN);
        if (!ready) break;
        for (int i = 0; i < kRequestsPerTurn && state.session.receive(state.received); ++i) {
        }
    }
    co_await state.writes.drained();
    state.session.unmount();
    state.serving = false;
}

void TreeMount::stop() {
    state_->stopping = true;
    state_->session.wake();
}

}  // namespace uc::frontend
