// Mounting, receiving requests, unmounting.
//
// The session's descriptor is non-blocking; the ring polls an epoll descriptor that joins it with
// an eventfd, so that stop() can end the wait although a poll in the ring cannot be cancelled and
// the session's descriptor is closed by unmounting. Each wake-up takes a bounded number of
// requests; their handlers answer at once or start a task (fuse_files.cc, fuse_io.cc).
//
// libfuse is used for the protocol only: no thread of its own, no splicing.
#include "frontend/fuse_export.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "frontend/fuse_state.h"

namespace uc::frontend {

namespace {

constexpr std::size_t kPoolKeeps = std::size_t{64} << 20;
constexpr int kRequestsPerTurn = 64;

const fuse_lowlevel_ops& operations() {
    static const fuse_lowlevel_ops table = [] {
        fuse_lowlevel_ops out{};
        add_file_operations(out);
        add_io_operations(out);
        return out;
    }();
    return table;
}

tl::unexpected<Error> refuse(Errc code, int error, std::string* message, std::string text) {
    if (error != 0) text += fmt::format(": {}", std::strerror(error));
    if (message != nullptr) *message = std::move(text);
    return fail(code, "cannot mount", error);
}

// What fusermount3 is for: a user without the right to unmount.
int unmount_as_user(const std::string& dir) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::execlp("fusermount3", "fusermount3", "-u", "-z", "-q", "--", dir.c_str(), nullptr);
        ::_exit(127);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child) return errno;
    return status == 0 ? 0 : EPERM;
}

int remove_stale_mount(const std::string& dir) {
    if (::umount2(dir.c_str(), MNT_DETACH) == 0) return 0;
    return errno == EPERM ? unmount_as_user(dir) : errno;
}

bool is_fuse_mount(const std::string& dir, const struct stat& info) {
    struct statfs kind {};
    struct stat parent {};
    if (::statfs(dir.c_str(), &kind) != 0 || kind.f_type != FUSE_SUPER_MAGIC) return false;
    return ::stat((dir + "/..").c_str(), &parent) == 0 && parent.st_dev != info.st_dev;
}

// Mounting would hide what is in there, for as long as the daemon runs.
bool is_empty(const std::string& dir) {
    std::error_code error;
    return std::filesystem::is_empty(dir, error) || error;
}

Result<void> check_mount_point(const std::string& dir, std::string* message) {
    struct stat info {};
    int error = ::stat(dir.c_str(), &info) == 0 ? 0 : errno;
    if (error == ENOTCONN || error == ECONNABORTED) {  // its server died
        error = remove_stale_mount(dir);
        if (error != 0) {
            return refuse(Errc::busy, error, message, fmt::format("{}: remove stale mount", dir));
        }
        error = ::stat(dir.c_str(), &info) == 0 ? 0 : errno;
    }
    if (error != 0) return refuse(Errc::not_found, error, message, dir);
    if (!S_ISDIR(info.st_mode)) return refuse(Errc::invalid, ENOTDIR, message, dir);
    if (is_fuse_mount(dir, info)) {
        return refuse(Errc::busy, 0, message,
                      fmt::format("{}: a FUSE file system is mounted there already", dir));
    }
    if (!is_empty(dir)) {
        return refuse(Errc::invalid, 0, message,
                      fmt::format("{}: the directory is not empty, and its contents would be "
                                  "hidden; name an empty or a new one",
                                  dir));
    }
    if (::access("/dev/fuse", R_OK | W_OK) != 0) {
        return refuse(Errc::unsupported, errno, message,
                      "/dev/fuse: FUSE is not available (modprobe fuse; in a container, pass "
                      "the device /dev/fuse in)");
    }
    return {};
}

fuse_session* new_session(FuseState* state, const FuseOptions& options) {
    std::string program = "ubcache";
    std::string flag = "-o";
    std::string values = "fsname=ubcache,subtype=ubcache,default_permissions";
    if (options.allow_other) values += ",allow_other";
    char* argv[] = {program.data(), flag.data(), values.data(), nullptr};
    fuse_args args = FUSE_ARGS_INIT(3, argv);
    fuse_session* const session =
        fuse_session_new(&args, &operations(), sizeof(fuse_lowlevel_ops), state);
    fuse_opt_free_args(&args);
    return session;
}

Result<void> watch(FuseState& state) {
    const int fd = fuse_session_fd(state.session);
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return fail(Errc::io, "fcntl", errno);
    }
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    state.wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    state.epoll_fd = ::epoll_create1(EPOLL_CLOEXEC);
    if (state.wake_fd < 0 || state.epoll_fd < 0) return fail(Errc::io, "epoll_create", errno);
    for (const int each : {fd, state.wake_fd}) {
        epoll_event event{};
        event.events = EPOLLIN;
        if (::epoll_ctl(state.epoll_fd, EPOLL_CTL_ADD, each, &event) != 0) {
            return fail(Errc::io, "epoll_ctl", errno);
        }
    }
    return {};
}

// Takes and dispatches one request. False: none is there now.
bool receive_one(FuseState& state) {
    if (state.received.size() == 0) state.received = state.pool.take(FuseState::kReceiveBytes);
    std::byte* const at = state.received.data() + FuseState::kReceiveAt;
    const std::size_t room = state.received.size() - FuseState::kReceiveAt;
    const ssize_t got = ::read(fuse_session_fd(state.session), at, room);
    if (got > 0) {
        fuse_buf buffer{};
        buffer.size = static_cast<std::size_t>(got);
        buffer.mem = at;
        fuse_session_process_buf(state.session, &buffer);
        return true;
    }
    // ENOENT: the request was interrupted before we took it.
    if (got < 0 && (errno == ENOENT || errno == EINTR)) return true;
    if (got == 0 || errno != EAGAIN) fuse_session_exit(state.session);  // ENODEV: unmounted
    return false;
}

}  // namespace

FuseState::FuseState(io::UringReactor& with_reactor, async::Executor& executor)
    : reactor(with_reactor), pool(kPoolKeeps), requests(executor) {}

FuseState::~FuseState() {
    unmount();
    if (session != nullptr) fuse_session_destroy(session);
    if (epoll_fd >= 0) ::close(epoll_fd);
    if (wake_fd >= 0) ::close(wake_fd);
}

FuseFile* FuseState::find(fuse_ino_t ino) {
    if (ino < 2 || ino - 2 >= files.size()) return nullptr;
    FuseFile* const file = files[ino - 2].get();
    return file->gone ? nullptr : file;
}

FuseFile* FuseState::find(const std::string& name) {
    for (const auto& file : files) {
        if (file->name == name && !file->gone) return file.get();
    }
    return nullptr;
}

void FuseState::unmount() {
    if (std::exchange(mounted, false)) fuse_session_unmount(session);
}

FuseExport::FuseExport(std::unique_ptr<FuseState> state) : state_(std::move(state)) {}

FuseExport::~FuseExport() {
    CHECK(!state_->serving);
}

Result<std::unique_ptr<FuseExport>> FuseExport::mount(io::UringReactor& reactor,
                                                      async::Executor& executor,
                                                      const std::string& dir, FuseOptions options,
                                                      std::string* message) {
    TRY_OK(check_mount_point(dir, message));
    auto state = std::make_unique<FuseState>(reactor, executor);
    state->session = new_session(state.get(), options);
    if (state->session == nullptr) return refuse(Errc::io, 0, message, "libfuse: no session");
    if (fuse_session_mount(state->session, dir.c_str()) != 0) {
        return refuse(Errc::io, errno, message, fmt::format("{}: mount", dir));
    }
    state->mounted = true;
    const Result<void> watched = watch(*state);
    if (!watched) return refuse(Errc::io, watched.error().sys, message, watched.error().what);
    return std::unique_ptr<FuseExport>(new FuseExport(std::move(state)));
}

void FuseExport::set_volumes(const std::vector<Export>& volumes) {
    auto& files = state_->files;
    std::vector<Export> added;
    std::vector<FuseFile*> kept;
    for (const Export& each : volumes) {
        FuseFile* const known = state_->find(each.name);
        if (known != nullptr && known->volume == each.volume) {
            kept.push_back(known);
        } else {
            added.push_back(each);
        }
    }
    for (const auto& file : files) {
        if (std::ranges::find(kept, file.get()) == kept.end()) file->gone = true;
    }
    for (const Export& each : added) {
        files.push_back(std::make_unique<FuseFile>());
        files.back()->ino = files.size() + 1;
        files.back()->name = each.name;
        files.back()->volume = each.volume;
    }
}

Task<void> FuseExport::unused(const core::Volume* volume) {
    const auto uses = [volume](const auto& file) {
        return file->volume == volume && file->running > 0;
    };
    while (std::ranges::any_of(state_->files, uses)) {
        co_await state_->changed.wait();
    }
}

Task<void> FuseExport::serve() {
    state_->serving = true;
    return receive_requests();
}

Task<void> FuseExport::receive_requests() {
    FuseState& state = *state_;
    while (!state.stopping && fuse_session_exited(state.session) == 0) {
        const Result<std::size_t> ready = co_await state.reactor.poll(state.epoll_fd, POLLIN);
        if (!ready) break;
        for (int i = 0; i < kRequestsPerTurn && receive_one(state); ++i) {
        }
    }
    co_await state.requests.drained();
    state.unmount();
    state.serving = false;
    state.changed.notify();
}

void FuseExport::stop() {
    state_->stopping = true;
    const std::uint64_t one = 1;
    // Fails only if the counter is full, and then the wake-up is there already.
    static_cast<void>(::write(state_->wake_fd, &one, sizeof one));
}

Task<void> FuseExport::stopped() {
    while (state_->serving) {
        co_await state_->changed.wait();
    }
}

}  // namespace uc::frontend
