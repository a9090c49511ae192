// Commands to the kernel's ublk driver: adding, starting, recovering and removing block devices.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "async/sync.h"
#include "async/task.h"
#include "base/result.h"
#include "frontend/ublk_abi.h"
#include "io/uring_reactor.h"

namespace uc::frontend {

// Commands need large submission entries, so they have a small ring of their own; the reactor only
// polls it. That matters: the driver reads the partition table while a device is being started, and
// we are the ones to answer.
class UblkControl {
public:
    // Loads the kernel's module if need be. `message` gets one line for the user.
    static Result<std::unique_ptr<UblkControl>> open(io::UringReactor& reactor,
                                                     std::string* message);
    ~UblkControl();
    UblkControl(const UblkControl&) = delete;
    UblkControl& operator=(const UblkControl&) = delete;

    // Errc::io with the errno in `sys`. ENODEV: there is no such device.
    Task<Result<void>> run(std::uint32_t command, std::uint32_t device, std::uint64_t value = 0);
    // `data` is read or written, as the command says; it outlives the call.
    Task<Result<void>> run(std::uint32_t command, std::uint32_t device, std::span<std::byte> data);

private:
    struct Ring;
    UblkControl(io::UringReactor& reactor, std::unique_ptr<Ring> ring);
    Task<Result<void>> run(std::uint32_t command, ublksrv_ctrl_cmd arguments);

    io::UringReactor& reactor_;
    std::unique_ptr<Ring> ring_;
    async::Mutex one_at_a_time_;
};

}  // namespace uc::frontend
