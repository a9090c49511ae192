// A block device as the engine sees it: asynchronous requests on 512-byte sectors.
//
// Durability contract (what the crash rules build on):
//  * A write that completed may still be lost by a power cut until a later flush completes, unless
//  it
//    was submitted with `fua`, in which case it is durable when it completes.
//  * A flush covers every write that completed before the flush was submitted.
//  * A power cut may tear a write at any 512-byte boundary; `atomic_sectors()` consecutive sectors,
//    aligned to that number, are written wholly or not at all.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "base/units.h"

namespace uc::io {

enum class IoKind : std::uint8_t { read, write, flush, discard, write_zeroes };

// A request lives in the caller's frame from submission to completion.
struct IoRequest {
    IoKind kind = IoKind::read;
    bool fua = false;
    std::uint64_t sector = 0;
    std::uint64_t sectors = 0;  // length, for all kinds but flush
    std::byte* data = nullptr;  // read, write: sectors * 512 bytes; any alignment
    Error error{};              // valid if !ok
    bool ok = true;
    async::Waiter* waiter = nullptr;

    void succeed() { ok = true; }
    void fail(Error what) {
        ok = false;
        error = what;
    }
};

class BlockDevice {
public:
    virtual ~BlockDevice() = default;

    // Starts a request. True: it is complete already (see ok, error) and nobody will be woken.
    // False: the device completes it later and then wakes request->waiter. A request outside the
    // device fails with Errc::invalid.
    virtual bool submit(IoRequest* request) = 0;

    virtual std::uint64_t size_sectors() const = 0;
    virtual std::uint32_t logical_block_sectors() const = 0;
    // Unit of writing that a power cut does not tear; >= 1.
    virtual std::uint32_t atomic_sectors() const { return 1; }
    // Preferred I/O size (RAID stripe); 0 = unknown.
    virtual std::uint32_t optimal_io_sectors() const { return 0; }
    // Discard reaches the medium. If not, discard fails with Errc::unsupported.
    virtual bool supports_discard() const { return false; }
    virtual bool read_only() const { return false; }
    // Path or other name for messages.
    virtual const std::string& name() const = 0;

    class Awaiter : public IoRequest {
    public:
        Awaiter(BlockDevice& device, IoRequest request) : IoRequest(request), device_(device) {}
        bool await_ready() { return false; }
        template <class P>
        bool await_suspend(std::coroutine_handle<P> self) {
            waiter = &self.promise();
            return !device_.submit(this);
        }
        Result<void> await_resume() {
            if (ok) return {};
            return tl::unexpected(error);
        }

    private:
        BlockDevice& device_;
    };

    // Buffers must stay valid until completion; their size must be a multiple of 512.
    [[nodiscard]] Awaiter read(std::uint64_t sector, std::span<std::byte> out) {
        return make(IoKind::read, sector, out.size() / kSectorBytes, out.data(), false);
    }
    [[nodiscard]] Awaiter write(std::uint64_t sector, std::span<const std::byte> in,
                                bool fua = false) {
        return make(IoKind::write, sector, in.size() / kSectorBytes,
                    const_cast<std::byte*>(in.data()), fua);
    }
    [[nodiscard]] Awaiter flush() { return make(IoKind::flush, 0, 0, nullptr, false); }
    [[nodiscard]] Awaiter discard(std::uint64_t sector, std::uint64_t sectors) {
        return make(IoKind::discard, sector, sectors, nullptr, false);
    }
    [[nodiscard]] Awaiter write_zeroes(std::uint64_t sector, std::uint64_t sectors,
                                       bool fua = false) {
        return make(IoKind::write_zeroes, sector, sectors, nullptr, fua);
    }

private:
    Awaiter make(IoKind kind, std::uint64_t sector, std::uint64_t sectors, std::byte* data,
                 bool fua) {
        IoRequest request;
        request.kind = kind;
        request.fua = fua;
        request.sector = sector;
        request.sectors = sectors;
        request.data = data;
        return Awaiter(*this, request);
    }
};

}  // namespace uc::io
