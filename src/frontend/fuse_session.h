// A FUSE mount and the descriptors that its server waits on; who answers the requests is the
// caller's business. libfuse is used for the protocol only: no thread of its own, no splicing.
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include <span>
#include <string>

#include "base/result.h"

namespace uc::frontend {

class FuseSession {
public:
    FuseSession() = default;
    FuseSession(const FuseSession&) = delete;
    FuseSession& operator=(const FuseSession&) = delete;
    // Unmounts.
    ~FuseSession();

    // Once. `operations` and `user` outlive the session. Errors and `message` as in
    // FuseExport::mount().
    Result<void> mount(const std::string& dir, const fuse_lowlevel_ops& operations, void* user,
                       bool allow_other, std::string* message);
    void unmount();

    // Readable if a request is there, or after wake().
    int poll_fd() const { return epoll_fd_; }
    // poll_fd() stays readable from now on. (A poll in the ring cannot be cancelled, and unmounting
    // closes the session's descriptor.)
    void wake();
    // False: nobody will send requests any more.
    bool alive() const { return fuse_session_exited(session_) == 0; }
    // Takes one request into `into` and dispatches it. False: none is there now.
    bool receive(std::span<std::byte> into);

private:
    Result<void> watch();

    fuse_session* session_ = nullptr;
    bool mounted_ = false;
    int wake_fd_ = -1;
    int epoll_fd_ = -1;
};

}  // namespace uc::frontend
