#include "frontend/nbd_listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace uc::frontend {

namespace {

constexpr int kBacklog = 64;

// Until it is handed on, an early return closes it.
class Fd {
public:
    explicit Fd(int fd) : fd_(fd) {}
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }

private:
    int fd_;
};

template <class Address>
const sockaddr* generic(const Address& address) {
    return reinterpret_cast<const sockaddr*>(&address);
}

int new_socket(int family, int flags = 0) {
    return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
}

// A socket in the file system outlives its server. It is live only if somebody accepts on it, even
// if that somebody has no room for us at the moment (EAGAIN), which must not make us wait.
Result<void> remove_stale(const sockaddr_un& address) {
    struct stat info {};
    if (::lstat(address.sun_path, &info) != 0) return {};  // gone meanwhile
    if (!S_ISSOCK(info.st_mode)) return fail(Errc::invalid, "path exists and is not a socket");
    const Fd probe(new_socket(AF_UNIX, SOCK_NONBLOCK));
    if (probe.get() < 0) return fail(Errc::io, "socket", errno);
    if (::connect(probe.get(), generic(address), sizeof address) == 0) {
        return fail(Errc::busy, "another server listens on this socket", EADDRINUSE);
    }
    if (errno != ECONNREFUSED) return fail(Errc::busy, "socket is in use", errno);
    if (::unlink(address.sun_path) != 0) return fail(Errc::io, "remove stale socket", errno);
    return {};
}

int bind_private(int fd, const sockaddr_un& address) {
    const mode_t before = ::umask(0177);
    const int result = ::bind(fd, generic(address), sizeof address) == 0 ? 0 : errno;
    ::umask(before);
    return result;
}

// The group first: before that, others may be in it.
Result<void> open_to_group(const std::string& path, gid_t group) {
    constexpr mode_t kMode = 0660;
    if (::lchown(path.c_str(), static_cast<uid_t>(-1), group) != 0) {
        return fail(Errc::io, "the socket cannot be given to the group", errno);
    }
    if (::chmod(path.c_str(), kMode) != 0) return fail(Errc::io, "chmod", errno);
    return {};
}

struct FreeAddresses {
    void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

bool is_loopback(const sockaddr* address) {
    if (address->sa_family == AF_INET) {
        const auto* const in = reinterpret_cast<const sockaddr_in*>(address);
        return (ntohl(in->sin_addr.s_addr) >> 24) == 127;
    }
    const auto* const in6 = reinterpret_cast<const sockaddr_in6*>(address);
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

// With the port that the kernel chose.
std::string tcp_uri(int fd) {
    sockaddr_storage bound{};
    socklen_t length = sizeof bound;
    auto* const address = reinterpret_cast<sockaddr*>(&bound);
    char host[NI_MAXHOST] = "";
    char port[NI_MAXSERV] = "";
    ::getsockname(fd, address, &length);
    ::getnameinfo(address, length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV);
    const bool v6 = bound.ss_family == AF_INET6;
    return v6 ? fmt::format("nbd://[{}]:{}", host, port) : fmt::format("nbd://{}:{}", host, port);
}

}  // namespace

NbdListener::NbdListener(NbdListener&& other) noexcept {
    *this = std::move(other);
}

NbdListener& NbdListener::operator=(NbdListener&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    std::swap(group_, other.group_);
    std::swap(node_, other.node_);
    std::swap(address_, other.address_);
    return *this;
}

NbdListener::~NbdListener() {
    if (fd_ < 0) return;
    if (!path_.empty() && in_place()) ::unlink(path_.c_str());
    ::close(fd_);
}

Result<NbdListener> NbdListener::on_path(const std::string& path, std::optional<gid_t> group) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) {
        return fail(Errc::invalid, "socket path is empty or too long");
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    Fd fd(new_socket(AF_UNIX));
    if (fd.get() < 0) return fail(Errc::io, "socket", errno);
    int error = bind_private(fd.get(), address);
    if (error == EADDRINUSE) {
        TRY_OK(remove_stale(address));
        error = bind_private(fd.get(), address);
    }
    if (error != 0) return fail(Errc::io, "bind", error);
    NbdListener listener;
    listener.fd_ = fd.release();
    listener.path_ = path;
    listener.group_ = group;
    listener.node_ = node_at(path);
    listener.address_ = "nbd+unix:///?socket=" + path;
    if (group) {
        TRY_OK(open_to_group(path, *group));
    }
    if (::listen(listener.fd_, kBacklog) != 0) return fail(Errc::io, "listen", errno);
    return listener;
}

Result<NbdListener> NbdListener::on_tcp(const std::string& host, std::uint16_t port, Reach reach) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | (host == "localhost" ? 0 : AI_NUMERICHOST);
    addrinfo* list = nullptr;
    if (::getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &hints, &list) != 0) {
        return fail(Errc::invalid, "not a numeric address");
    }
    const std::unique_ptr<addrinfo, FreeAddresses> owner(list);
    if (reach == Reach::loopback && !is_loopback(list->ai_addr)) {
        return fail(Errc::invalid, "not a loopback address");
    }
    Fd fd(new_socket(list->ai_family));
    if (fd.get() < 0) return fail(Errc::io, "socket", errno);
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0) {
        return fail(errno == EADDRINUSE ? Errc::busy : Errc::io, "bind", errno);
    }
    if (::listen(fd.get(), kBacklog) != 0) return fail(Errc::io, "listen", errno);
    NbdListener listener;
    listener.address_ = tcp_uri(fd.get());
    listener.fd_ = fd.release();
    return listener;
}

NbdListener::Node NbdListener::node_at(const std::string& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return {};
    return {info.st_dev, info.st_ino};
}

bool NbdListener::in_place() const {
    if (is_tcp()) return true;
    return node_ != Node{} && node_at(path_) == node_;
}

void NbdListener::shut() {
    ::shutdown(fd_, SHUT_RDWR);
}

}  // namespace uc::frontend
