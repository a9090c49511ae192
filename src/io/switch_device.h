// A block device that may be replaced by another one with the same contents: the same disk under a
// new name, after it was away.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/block_device.h"

namespace uc::io {

class SwitchDevice final : public BlockDevice {
public:
    explicit SwitchDevice(std::shared_ptr<BlockDevice> device)
        : device_(std::move(device)), size_sectors_(device_->size_sectors()) {}

    // From now on requests go to `device`, which must be as large. The old one is kept until the
    // end: requests to it may be under way.
    void replace(std::shared_ptr<BlockDevice> device) {
        CHECK(device->size_sectors() == size_sectors_);
        if (device == device_) return;
        retired_.push_back(std::exchange(device_, std::move(device)));
    }
    const std::shared_ptr<BlockDevice>& current() const { return device_; }

    bool submit(IoRequest* request) override { return device_->submit(request); }
    std::uint64_t size_sectors() const override { return size_sectors_; }
    std::uint32_t logical_block_sectors() const override {
        return device_->logical_block_sectors();
    }
    std::uint32_t atomic_sectors() const override { return device_->atomic_sectors(); }
    std::uint32_t optimal_io_sectors() const override { return device_->optimal_io_sectors(); }
    bool supports_discard() const override { return device_->supports_discard(); }
    bool read_only() const override { return device_->read_only(); }
    const std::string& name() const override { return device_->name(); }

private:
    std::shared_ptr<BlockDevice> device_;
    std::uint64_t size_sectors_;
    std::vector<std::shared_ptr<BlockDevice>> retired_;
};

}  // namespace uc::io
