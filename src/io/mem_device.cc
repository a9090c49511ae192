#include "io/mem_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace uc::io {

namespace {
constexpr std::uint64_t kPageBytes = 4096;
}

Result<std::unique_ptr<MemDevice>> MemDevice::create(std::uint64_t sectors, std::string name) {
    void* const memory = ::mmap(nullptr, sectors * kSectorBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return fail(Errc::no_space, "no memory for a device", errno);
    return std::unique_ptr<MemDevice>(
        new MemDevice(static_cast<std::byte*>(memory), sectors, std::move(name)));
}

MemDevice::MemDevice(std::byte* memory, std::uint64_t sectors, std::string name)
    : memory_(memory), sectors_(sectors), name_(std::move(name)) {}

MemDevice::~MemDevice() {
    ::munmap(memory_, sectors_ * kSectorBytes);
}

bool MemDevice::submit(IoRequest* request) {
    request->succeed();
    if (request->kind == IoKind::flush) return true;
    if (request->sector > sectors_ || request->sectors > sectors_ - request->sector) {
        request->fail({Errc::invalid, 0, "request beyond the end of the device"});
        return true;
    }
    std::byte* const at = memory_ + request->sector * kSectorBytes;
    const std::size_t bytes = request->sectors * kSectorBytes;
    switch (request->kind) {
        case IoKind::read:
            std::memcpy(request->data, at, bytes);
            break;
        case IoKind::write:
            std::memcpy(at, request->data, bytes);
            break;
        case IoKind::discard:
        case IoKind::write_zeroes:
            zero(request->sector, request->sectors);
            break;
        case IoKind::flush:
            break;
    }
    return true;
}

// Whole pages go back to the kernel, which gives zeroes when they are touched again.
void MemDevice::zero(std::uint64_t sector, std::uint64_t sectors) {
    const std::uint64_t begin = sector * kSectorBytes;
    const std::uint64_t end = begin + sectors * kSectorBytes;
    const std::uint64_t first_page = div_ceil(begin, kPageBytes) * kPageBytes;
    const std::uint64_t last_page = end / kPageBytes * kPageBytes;
    if (first_page >= last_page) {
        std::memset(memory_ + begin, 0, end - begin);
        return;
    }
    std::memset(memory_ + begin, 0, first_page - begin);
    std::memset(memory_ + last_page, 0, end - last_page);
    // Locked pages stay.
    if (::madvise(memory_ + first_page, last_page - first_page, MADV_DONTNEED) != 0) {
        std::memset(memory_ + first_page, 0, last_page - first_page);
    }
}

}  // namespace uc::io
