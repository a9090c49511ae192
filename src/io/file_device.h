// A regular file or block device, through io_uring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "base/result.h"
#include "io/block_device.h"
#include "io/buffer.h"
#include "io/file_open.h"
#include "io/uring_reactor.h"

namespace uc::io {

class FileDevice final : public BlockDevice {
public:
    // Requests the kernel works on at the same time; more wait inside the device, in order.
    static constexpr std::size_t kMaxInFlight = 1024;

    // See open_file() for errors and `message`. The reactor must outlive the device.
    static Result<std::unique_ptr<FileDevice>> open(UringReactor& reactor, const std::string& path,
                                                    const OpenOptions& options = {},
                                                    std::string* message = nullptr);
    // Waits for what is in flight (blocking); the waiters are posted, not resumed.
    ~FileDevice() override;
    FileDevice(const FileDevice&) = delete;
    FileDevice& operator=(const FileDevice&) = delete;

    bool submit(IoRequest* request) override;
    std::uint64_t size_sectors() const override { return file_.size_sectors; }
    std::uint32_t logical_block_sectors() const override { return file_.logical_block_sectors; }
    std::uint32_t atomic_sectors() const override { return file_.atomic_sectors; }
    std::uint32_t optimal_io_sectors() const override { return file_.optimal_io_sectors; }
    bool supports_discard() const override { return file_.discards; }
    bool read_only() const override { return read_only_; }
    const std::string& name() const override { return path_; }
    // The page cache is bypassed.
    bool direct() const { return file_.direct; }

private:
    struct Op;
    FileDevice(UringReactor& reactor, std::string path, OpenedFile file, bool read_only);

    bool check(IoRequest& request) const;
    void begin(IoRequest* request);
    void start(Op& op);
    void transfer(Op& op);
    std::byte* choose_memory(Op& op);
    void allocate_range(Op& op);
    void discard_range(Op& op);
    void sync(Op& op);
    io_uring_sqe* prepare(Op& op);
    void use_file(io_uring_sqe* sqe) const;

    void completed(Op& op, int result);
    void failed(Op& op, int sys);
    void transferred(Op& op, std::size_t bytes);
    void transfer_done(Op& op);
    bool was_cut_off();
    void finish(Op& op);

    UringReactor& reactor_;
    std::string path_;
    OpenedFile file_;
    int slot_;
    bool read_only_;
    bool cut_off_ = false;
    bool discard_command_;
    bool dsync_writes_ = true;  // RWF_DSYNC is understood, as far as we know
    bool zero_range_ = true;    // likewise FALLOC_FL_ZERO_RANGE
    Buffer zeroes_;
    std::unique_ptr<Op[]> ops_;
    Op* free_ops_ = nullptr;
    std::size_t in_flight_ = 0;
    std::deque<IoRequest*> waiting_;
};

}  // namespace uc::io
