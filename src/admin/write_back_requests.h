// The requests that write dirty data back: flush, detach, and stop with a flush. They tell the
// client how far they are, and end although other clients go on writing.
#pragma once

#include <string>
#include <vector>

#include "admin/control_server.h"
#include "admin/served_set.h"
#include "async/sync.h"
#include "io/clock.h"

namespace uc::admin {

// While it exists, nothing new becomes dirty on these volumes; their cache mode stays as it is.
class DirtyingPause {
public:
    explicit DirtyingPause(const std::vector<ServedVolume>& volumes);
    ~DirtyingPause();
    DirtyingPause(const DirtyingPause&) = delete;
    DirtyingPause& operator=(const DirtyingPause&) = delete;

private:
    std::vector<core::SetVolume*> volumes_;
};

class WriteBackRequests {
public:
    WriteBackRequests(async::Executor& executor, io::Clock& clock, ServedSet& served)
        : clock_(clock), served_(served), work_(executor) {}

    Task<Outcome<>> flush(ServedVolume volume, ControlReply& reply);
    // All volumes that have a backing device.
    Task<Outcome<>> flush_all(ControlReply& reply);
    Task<Outcome<>> detach(ServedVolume volume, ControlReply& reply);

private:
    enum class Kind : std::uint8_t { flush, detach };
    // Background work that a request watches.
    struct Work {
        core::SetVolume* volume = nullptr;
        Kind kind = Kind::flush;
        bool done = false;
        Result<void> result;
        async::Event changed;
    };

    Outcome<> check(const ServedVolume& volume, Kind kind) const;
    Task<Outcome<>> perform(ServedVolume volume, Kind kind, ControlReply& reply);
    Task<void> run(Work& work);

    io::Clock& clock_;
    ServedSet& served_;
    async::TaskGroup work_;
};

}  // namespace uc::admin
