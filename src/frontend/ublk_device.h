// One volume as a block device of the kernel, /dev/ublkbN.
//
// The driver hands out requests by completing commands that we have left with it, one for each of
// the device's tags; the next command for the tag carries the answer. It copies data itself,
// between the request's pages and the tag's buffer.
//
// If our process dies, the driver keeps the device and holds its requests, the unanswered ones too.
// The next daemon finds the device by the volume's uuid and goes on; file systems on it notice
// nothing but the pause. (A request may then be served twice, which for reads, writes, flushes and
// discards is the same as once.)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "async/sync.h"
#include "async/task.h"
#include "base/result.h"
#include "core/volume.h"
#include "frontend/export.h"
#include "frontend/ublk_control.h"
#include "io/uring_reactor.h"

namespace uc::frontend {

class UblkDevice {
public:
    // The volume outlives it. `message` gets one line for the user on an error, or if something
    // about the device is worth telling.
    static Task<Result<std::unique_ptr<UblkDevice>>> start(io::UringReactor& reactor,
                                                           async::Executor& executor,
                                                           UblkControl& control, Export what,
                                                           std::string* message);
    ~UblkDevice();
    UblkDevice(const UblkDevice&) = delete;
    UblkDevice& operator=(const UblkDevice&) = delete;

    const core::Volume* volume() const { return what_.volume; }
    const Export& what() const { return what_; }
    std::string path() const;  // of the block device
    bool recovered() const { return recovered_; }

    // Ends it. A device that nobody uses is removed. One in use stays: its requests wait for the
    // next daemon; the result is then true.
    Task<bool> stop();

private:
    struct Tags;
    UblkDevice(io::UringReactor& reactor, async::Executor& executor, UblkControl& control,
               Export what);
    Task<Result<void>> find_or_add(std::string* message);
    Task<Result<bool>> adopt(std::uint32_t id, std::string* message);
    Task<Result<void>> add(std::string* message);
    Task<Result<void>> begin(std::string* message);
    Result<void> open_queues();
    Task<void> serve(std::uint32_t tag);
    Task<int> perform(std::uint32_t tag);
    Task<Result<void>> pass_on(std::uint32_t tag);
    Task<void> let_go();
    Task<bool> in_use() const;
    ublk_params params() const;

    io::UringReactor& reactor_;
    UblkControl& control_;
    Export what_;
    ublksrv_ctrl_dev_info info_{};
    bool recovered_ = false;
    bool leaving_ = false;
    std::shared_ptr<Tags> tags_;
    async::TaskGroup serving_;
};

}  // namespace uc::frontend
