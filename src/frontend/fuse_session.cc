#include "frontend/fuse_session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace uc::frontend {

namespace {

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

fuse_session* new_session(const fuse_lowlevel_ops& operations, void* user, bool allow_other) {
    std::string program = "ubcache";
    std::string flag = "-o";
    std::string values = "fsname=ubcache,subtype=ubcache,default_permissions";
    if (allow_other) values += ",allow_other";
    char* argv[] = {program.data(), flag.data(), values.data(), nullptr};
    fuse_args args = FUSE_ARGS_INIT(3, argv);
    fuse_session* const session =
        fuse_session_new(&args, &operations, sizeof(fuse_lowlevel_ops), user);
    fuse_opt_free_args(&args);
    return session;
}

}  // namespace

FuseSession::~FuseSession() {
    unmount();
    if (session_ != nullptr) fuse_session_destroy(session_);
    if (epoll_fd_ >= 0) ::close(epoll_fd_);
    if (wake_fd_ >= 0) ::close(wake_fd_);
}

Result<void> FuseSession::mount(const std::string& dir, const fuse_lowlevel_ops& operations,
                                void* user, bool allow_other, std::string* message) {
    TRY_OK(check_mount_point(dir, message));
    session_ = new_session(operations, user, allow_other);
    if (session_ == nullptr) return refuse(Errc::io, 0, message, "libfuse: no session");
    if (fuse_session_mount(session_, dir.c_str()) != 0) {
        return refuse(Errc::io, errno, message, fmt::format("{}: mount", dir));
    }
    mounted_ = true;
    const Result<void> watched = watch();
    if (!watched) return refuse(Errc::io, watched.error().sys, message, watched.error().what);
    return {};
}

void FuseSession::unmount() {
    if (std::exchange(mounted_, false)) fuse_session_unmount(session_);
}

Result<void> FuseSession::watch() {
    const int fd = fuse_session_fd(session_);
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return fail(Errc::io, "fcntl", errno);
    }
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
    if (wake_fd_ < 0 || epoll_fd_ < 0) return fail(Errc::io, "epoll_create", errno);
    for (const int each : {fd, wake_fd_}) {
        epoll_event event{};
        event.events = EPOLLIN;
        if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, each, &event) != 0) {
            return fail(Errc::io, "epoll_ctl", errno);
        }
    }
    return {};
}

void FuseSession::wake() {
    const std::uint64_t one = 1;
    // Fails only if the counter is full, and then the wake-up is there already.
    static_cast<void>(::write(wake_fd_, &one, sizeof one));
}

bool FuseSession::receive(std::span<std::byte> into) {
    const ssize_t got = ::read(fuse_session_fd(session_), into.data(), into.size());
    if (got > 0) {
        fuse_buf buffer{};
        buffer.size = static_cast<std::size_t>(got);
        buffer.mem = into.data();
        fuse_session_process_buf(session_, &buffer);
        return true;
    }
    // ENOENT: the request was interrupted before we took it.
    if (got < 0 && (errno == ENOENT || errno == EINTR)) return true;
    if (got == 0 || errno != EAGAIN) fuse_session_exit(session_);  // ENODEV: unmounted
    return false;
}

}  // namespace uc::frontend
