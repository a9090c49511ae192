// An open file, so to speak, on a simulated disk. When the disk is unplugged the handle dies with
// it, and whoever wants to go on needs a new one, as with a real device that returns under a new
// name.
#pragma once

#include <cstdint>
#include <string>

#include "sim/sim_disk.h"

namespace uc::sim {

class DiskHandle final : public io::BlockDevice {
public:
    explicit DiskHandle(SimDisk& disk) : disk_(disk) {}

    // Together with SimDisk::vanish().
    void die() { dead_ = true; }
    bool dead() const { return dead_; }
    const SimDisk& disk() const { return disk_; }

    bool submit(io::IoRequest* request) override {
        if (!dead_) return disk_.submit(request);
        request->fail({Errc::io, 19, "no such device any more"});
        return true;
    }
    std::uint64_t size_sectors() const override { return disk_.size_sectors(); }
    std::uint32_t logical_block_sectors() const override { return disk_.logical_block_sectors(); }
    std::uint32_t atomic_sectors() const override { return disk_.atomic_sectors(); }
    std::uint32_t optimal_io_sectors() const override { return disk_.optimal_io_sectors(); }
    bool supports_discard() const override { return disk_.supports_discard(); }
    const std::string& name() const override { return disk_.name(); }

private:
    SimDisk& disk_;
    bool dead_ = false;
};

}  // namespace uc::sim
