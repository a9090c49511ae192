// Volumes as block devices of the kernel, with names that stay: links in a directory,
// by-uuid/UUID and by-label/LABEL, to whatever number the kernel has given.
//
// Life: open() -> set_volumes(), again when volumes come or go -> stop().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/sync.h"
#include "async/task.h"
#include "base/result.h"
#include "frontend/export.h"
#include "frontend/ublk_control.h"
#include "frontend/ublk_device.h"
#include "io/uring_reactor.h"

namespace uc::frontend {

class UblkExport {
public:
    using Log = std::function<void(const std::string& line)>;

    // Errc::unsupported: no ublk here; `message` gets one line for the user. `links` is made when
    // needed. The references outlive it.
    static Result<std::unique_ptr<UblkExport>> open(io::UringReactor& reactor,
                                                    async::Executor& executor, std::string links,
                                                    Log log, std::string* message);
    UblkExport(const UblkExport&) = delete;
    UblkExport& operator=(const UblkExport&) = delete;

    // One device per volume. On an error `message` has a line; the other devices are there. Calls
    // wait for each other.
    Task<Result<void>> set_volumes(std::vector<Export> volumes, std::string* message);
    // Removes devices and links; those in use stay, and their requests wait for the next daemon.
    Task<void> stop();
    // Empty: not there (yet).
    std::string path(const core::Volume* volume) const;

private:
    UblkExport(io::UringReactor& reactor, async::Executor& executor,
               std::unique_ptr<UblkControl> control, std::string links, Log log);
    Task<Result<void>> add(Export what, std::string* message);
    Task<void> remove(std::size_t index);
    void make_links(const UblkDevice& device);
    void remove_links(const UblkDevice& device);
    std::vector<std::string> links_of(const Export& what) const;

    io::UringReactor& reactor_;
    async::Executor& executor_;
    std::unique_ptr<UblkControl> control_;
    std::string links_;
    Log log_;
    async::Mutex changing_;
    std::vector<std::unique_ptr<UblkDevice>> devices_;
};

}  // namespace uc::frontend
