// A block device in plain memory (`mem:`): for benchmarks and tests. Every request completes inside
// submit(). Pages exist only once they were written; what was never written or was discarded is
// zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "io/block_device.h"

namespace uc::io {

class MemDevice final : public BlockDevice {
public:
    // Errc::no_space if the address space is not to be had.
    static Result<std::unique_ptr<MemDevice>> create(std::uint64_t sectors,
                                                     std::string name = "mem:");
    ~MemDevice() override;
    MemDevice(const MemDevice&) = delete;
    MemDevice& operator=(const MemDevice&) = delete;

    bool submit(IoRequest* request) override;
    std::uint64_t size_sectors() const override { return sectors_; }
    std::uint32_t logical_block_sectors() const override { return 1; }
    bool supports_discard() const override { return true; }
    const std::string& name() const override { return name_; }

private:
    MemDevice(std::byte* memory, std::uint64_t sectors, std::string name);
    void zero(std::uint64_t sector, std::uint64_t sectors);

    std::byte* memory_;
    std::uint64_t sectors_;
    std::string name_;
};

}  // namespace uc::io
