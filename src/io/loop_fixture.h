// A loop device over a file, for tests on a real block device. Needs privileges; see ready().
#pragma once

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "io/file_open.h"

namespace uc::io {

class LoopDevice {
public:
    LoopDevice(const std::string& file, std::uint32_t block_bytes) {
        const Descriptor control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
        const Descriptor backing(::open(file.c_str(), O_RDWR | O_CLOEXEC));
        const int number = control.get() < 0 ? -1 : ::ioctl(control.get(), LOOP_CTL_GET_FREE);
        if (number < 0 || backing.get() < 0) return;
        path_ = "/dev/loop" + std::to_string(number);
        loop_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
        loop_config config{};
        config.fd = static_cast<std::uint32_t>(backing.get());
        config.block_size = block_bytes;
        ready_ = loop_.get() >= 0 && ::ioctl(loop_.get(), LOOP_CONFIGURE, &config) == 0;
    }
    LoopDevice(const LoopDevice&) = delete;
    LoopDevice& operator=(const LoopDevice&) = delete;
    ~LoopDevice() {
        if (!ready_) return;
        protect(false);  // it would outlive the file
        ::ioctl(loop_.get(), LOOP_CLR_FD);
    }
    bool ready() const { return ready_; }
    bool protect(bool on = true) const {
        const int value = on ? 1 : 0;
        return ::ioctl(loop_.get(), BLKROSET, &value) == 0;
    }
    const std::string& path() const { return path_; }

private:
    Descriptor loop_;
    std::string path_;
    bool ready_ = false;
};

}  // namespace uc::io
