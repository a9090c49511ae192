// A device that shows a test every request before a simulated disk gets it, and refuses those that
// the test wants to fail.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/sim_disk.h"

namespace uc::test {

class WatchedDevice final : public io::BlockDevice {
public:
    explicit WatchedDevice(sim::SimDisk& below) : disk(below) {}

    bool submit(io::IoRequest* request) override {
        ++requests;
        writes += request->kind != io::IoKind::read && request->kind != io::IoKind::flush;
        flushes += request->kind == io::IoKind::flush;
        if (watch) watch(*request);
        if (refused(*request)) {
            request->fail({Errc::io, 5, "refused by the test"});
            return true;
        }
        return disk.submit(request);
    }
    std::uint64_t size_sectors() const override { return disk.size_sectors(); }
    std::uint32_t logical_block_sectors() const override { return disk.logical_block_sectors(); }
    std::uint32_t atomic_sectors() const override { return disk.atomic_sectors(); }
    bool supports_discard() const override { return disk.supports_discard(); }
    const std::string& name() const override { return disk.name(); }

    void heal() { gone = fail_reads = fail_writes = fail_unforced_writes = false; }

    sim::SimDisk& disk;
    std::uint64_t requests = 0, writes = 0, flushes = 0;  // writes: whatever changes the medium
    bool gone = false;
    bool fail_reads = false;
    bool fail_writes = false;
    bool fail_unforced_writes = false;  // without FUA: on a cache device that is data
    std::function<void(const io::IoRequest&)> watch;

private:
    bool refused(const io::IoRequest& request) const {
        if (gone) return true;
        switch (request.kind) {
            case io::IoKind::read:
                return fail_reads;
            case io::IoKind::flush:
                return fail_writes;
            default:
                return fail_writes || (fail_unforced_writes && !request.fua);
        }
    }
};

}  // namespace uc::test
