#include "sim/disk_faults.h"

#include <cstring>

#include "ondisk/magic.h"

namespace uc::sim {

namespace {

// Where all checked structures of a set have their magic.
constexpr std::size_t kMagicOffset = 8;

bool concerns(const Fault& fault, const io::IoRequest& request) {
    if (request.kind == io::IoKind::flush) return fault.flushes;
    const bool wanted = request.kind == io::IoKind::read ? fault.reads : fault.writes;
    if (!wanted || request.sector >= fault.sector + fault.sectors) return false;
    return fault.sector < request.sector + request.sectors;
}

}  // namespace

std::uint64_t magic_of(std::span<const std::byte> first, std::uint64_t set_magic) {
    std::uint64_t magic = 0;
    std::memcpy(&magic, first.data() + kMagicOffset, sizeof(magic));
    return magic ^ set_magic;
}

bool DiskFaults::checked(std::span<const std::byte> first) const {
    if (!set_magic_ || first.size() < kSectorBytes) return false;
    const std::uint64_t magic = magic_of(first, *set_magic_);
    return magic == ondisk::kJsetMagic || magic == ondisk::kBsetMagic ||
           magic == ondisk::kPrioMagic;
}

std::optional<Fault> DiskFaults::strike(const io::IoRequest& request,
                                        std::span<const std::byte> first) {
    for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
        if (!concerns(*fault, request)) continue;
        if (fault->flip && !checked(first)) continue;
        const Fault struck = *fault;
        if (fault->times != 0 && --fault->times == 0) faults_.erase(fault);
        return struck;
    }
    return std::nullopt;
}

}  // namespace uc::sim
