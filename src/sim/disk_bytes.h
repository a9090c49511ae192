// The contents of a simulated disk, for readers that do without the engine.
#pragma once

#include "sim/disk_checker.h"
#include "sim/sim_disk.h"

namespace uc::sim {

class DiskBytes final : public ByteSource {
public:
    explicit DiskBytes(const SimDisk& disk) : disk_(disk) {}
    bool read(std::uint64_t offset, std::span<std::byte> out) const override {
        if (offset + out.size() > bytes()) return false;
        disk_.peek(offset / kSectorBytes, out);
        return true;
    }
    std::uint64_t bytes() const override { return disk_.size_sectors() * kSectorBytes; }

private:
    const SimDisk& disk_;
};

}  // namespace uc::sim
