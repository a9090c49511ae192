// Listening sockets for the NBD server: a path that a dead server left behind is taken over, one in
// use is refused, and TCP keeps to the loopback interface unless told otherwise.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace uc::frontend {

enum class Reach : std::uint8_t {
    loopback,  // refuse other addresses: the protocol has neither encryption nor a login
    anywhere,
};

// A listening socket; closed, and its path removed if it still is this socket, when destroyed.
class NbdListener {
public:
    NbdListener() = default;
    NbdListener(NbdListener&& other) noexcept;
    NbdListener& operator=(NbdListener&& other) noexcept;
    ~NbdListener();

    // Only this user can connect (mode 0600), or also the members of `group` (0660). Errc::busy: a
    // live server listens there. Errc::invalid: the path is too long, or something that is no
    // socket. Errc::io with EPERM: not ours to give to that group.
    static Result<NbdListener> on_path(const std::string& path,
                                       std::optional<gid_t> group = std::nullopt);
    // `host` is a numeric address or "localhost"; port 0 takes any free one.
    static Result<NbdListener> on_tcp(const std::string& host, std::uint16_t port, Reach reach);

    // The same path for the same group, while this one is still open but in_place() no longer.
    // Errors as in on_path(); a path that somebody else has meanwhile is left alone.
    Result<NbdListener> anew() const { return on_path(path_, group_); }

    int fd() const { return fd_; }
    bool is_tcp() const { return path_.empty(); }
    const std::string& path() const { return path_; }  // of a unix socket
    // As an NBD URI without an export name.
    const std::string& address() const { return address_; }
    // Ends a pending accept and refuses new clients.
    void shut();
    // False: the path of a unix socket was removed or replaced, so nobody can reach it any more.
    bool in_place() const;

private:
    // The socket in the file system. As long as it is open, no other file gets its number.
    struct Node {
        dev_t device = 0;
        ino_t inode = 0;
        bool operator==(const Node&) const = default;
    };
    static Node node_at(const std::string& path);

    int fd_ = -1;
    std::string path_;
    std::optional<gid_t> group_;
    Node node_;
    std::string address_;
};

}  // namespace uc::frontend
