// A device in front of another one that counts what passes and may complete it later: what memory
// did at once then goes through the executor, as a real device's completion does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "io/block_device.h"

namespace uc::bench {

class WatchedDevice final : public io::BlockDevice {
public:
    explicit WatchedDevice(std::unique_ptr<io::BlockDevice> device) : device_(std::move(device)) {}

    void complete_later(bool on) { later_ = on; }
    std::uint64_t reads() const { return reads_; }
    std::uint64_t writes() const { return writes_; }

    bool submit(io::IoRequest* request) override {
        reads_ += request->kind == io::IoKind::read;
        writes_ += request->kind == io::IoKind::write;
        if (!device_->submit(request)) return false;
        if (!later_) return true;
        request->waiter->wake();
        return false;
    }
    std::uint64_t size_sectors() const override { return device_->size_sectors(); }
    std::uint32_t logical_block_sectors() const override {
        return device_->logical_block_sectors();
    }
    std::uint32_t atomic_sectors() const override { return device_->atomic_sectors(); }
    std::uint32_t optimal_io_sectors() const override { return device_->optimal_io_sectors(); }
    bool supports_discard() const override { return device_->supports_discard(); }
    const std::string& name() const override { return device_->name(); }

private:
    std::unique_ptr<io::BlockDevice> device_;
    bool later_ = false;
    std::uint64_t reads_ = 0;
    std::uint64_t writes_ = 0;
};

}  // namespace uc::bench
