// The front ends of a set in service: NBD server, FUSE directory and block devices, whichever were
// asked for.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "admin/endpoint.h"
#include "admin/outcome.h"
#include "async/sync.h"
#include "async/task.h"
#include "frontend/export.h"
#include "frontend/fuse_export.h"
#include "frontend/nbd_server.h"
#include "frontend/ublk_export.h"
#include "io/uring_reactor.h"

namespace uc::admin {

struct FrontEndOptions {
    std::string nbd;    // "unix:PATH" or "HOST:PORT"; empty: no NBD
    std::string fuse;   // directory; empty: no FUSE
    bool ublk = false;  // block devices of the kernel
    // Whatever of these the machine has, best first, under this directory; empty: only what is said
    // above.
    std::string automatic;
    bool nbd_anywhere = false;  // TCP beyond the loopback interface
    // Its members may connect to the unix sockets, that of the control requests included.
    std::optional<gid_t> group;
};

class FrontEnds {
public:
    using Log = std::function<void(const std::string&)>;

    // The references outlive it. `log` gets lines on what happens to it later.
    FrontEnds(async::Executor& executor, io::UringReactor& reactor, FrontEndOptions options,
              Log log);
    FrontEnds(const FrontEnds&) = delete;
    FrontEnds& operator=(const FrontEnds&) = delete;

    // What can be known without starting anything.
    Outcome<> check() const;
    // After an error stop() must still be called.
    Task<Outcome<>> start(std::vector<frontend::Export> exports);
    Task<void> stop();

    void set_exports(const std::vector<frontend::Export>& exports);
    // Where clients find what is exported as `name`; empty if that front end is not in use.
    std::string nbd_uri(const std::string& name) const;
    std::string file_path(const std::string& name) const;
    std::string block_path(const core::Volume* volume) const;

private:
    void choose();
    Task<Outcome<>> start_nbd();
    Task<Outcome<>> start_fuse();
    Task<Outcome<>> start_ublk(std::vector<frontend::Export> exports);
    Task<void> update_ublk(std::vector<frontend::Export> exports);
    Outcome<> make_fuse_directory() const;
    Result<std::unique_ptr<frontend::NbdServer>> listen(const Endpoint& endpoint);
    Task<void> watch_fuse(Task<void> serving);
    std::string nbd_socket() const;

    async::Executor& executor_;
    io::UringReactor& reactor_;
    FrontEndOptions options_;
    Log log_;
    std::unique_ptr<frontend::NbdServer> nbd_;
    std::unique_ptr<frontend::FuseExport> fuse_;
    std::unique_ptr<frontend::UblkExport> ublk_;
    async::TaskGroup serving_;
    bool stopping_ = false;
};

}  // namespace uc::admin
