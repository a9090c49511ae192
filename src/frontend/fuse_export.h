// Shows volumes as regular files of a FUSE file system, for machines and containers without NBD or
// ublk: each file can be read and written directly, or be given to losetup. Runs on the reactor's
// thread.
//
// Life: mount() -> set_volumes() -> serve() spawned -> ... -> stop() -> co_await stopped().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "async/executor.h"
#include "async/task.h"
#include "base/result.h"
#include "frontend/export.h"
#include "io/uring_reactor.h"

namespace uc::frontend {

struct FuseState;

struct FuseOptions {
    bool allow_other = false;  // other users than the one who mounts; file modes still apply
};

class FuseExport {
public:
    // Mounts on an existing, empty directory. A mount left there by a process that died is removed
    // first. Errc::unsupported: no FUSE here. Errc::invalid: no directory, or not empty.
    // Errc::busy: a live FUSE file system is mounted there. `message` gets one line for the user.
    // Until serve() runs, whoever looks into the directory waits.
    static Result<std::unique_ptr<FuseExport>> mount(io::UringReactor& reactor,
                                                     async::Executor& executor,
                                                     const std::string& dir, FuseOptions options,
                                                     std::string* message);
    // Unmounts. Only before serve() or after stopped().
    ~FuseExport();
    FuseExport(const FuseExport&) = delete;
    FuseExport& operator=(const FuseExport&) = delete;

    // One file per volume, named like the export. Files of volumes no longer listed vanish and fail
    // with ESTALE where they are open; the volume must live until `co_await unused(volume)`
    // returns.
    void set_volumes(const std::vector<Export>& volumes);
    Task<void> unused(const core::Volume* volume);

    // Serves until stop() or until somebody unmounts. Counts as running from the call on. Once.
    Task<void> serve();
    // Answers what has been taken, then unmounts; open files fail with ENOTCONN from then on.
    void stop();
    // Waits for the end of serve(); at once if it was never started.
    Task<void> stopped();

private:
    explicit FuseExport(std::unique_ptr<FuseState> state);
    Task<void> receive_requests();

    std::unique_ptr<FuseState> state_;
};

}  // namespace uc::frontend
