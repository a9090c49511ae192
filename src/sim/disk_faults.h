// What a disk does wrong, and to which requests.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/block_device.h"

namespace uc::sim {

// Requests that touch the range fail, for good or `times` times.
struct Fault {
    std::uint64_t sector = 0;
    std::uint64_t sectors = 0;
    bool reads = false;
    bool writes = false;      // zeroes and discards too; a part of the request may have been done
    std::uint32_t times = 0;  // 0: permanent
    // Anywhere: the flush fails, and the disk may never write what it should have covered.
    bool flushes = false;
    // Reads do not fail, but one bit of what they return is wrong. Strikes only what carries a
    // checksum, by the magic at its beginning: the format has none for the data of users (11.9).
    bool flip = false;
};

// What the first sector of a structure says that it is: one of ondisk/magic.h, or nonsense.
std::uint64_t magic_of(std::span<const std::byte> first, std::uint64_t set_magic);

class DiskFaults {
public:
    void add(const Fault& fault) { faults_.push_back(fault); }
    void clear() { faults_.clear(); }
    // Of the set whose structures `flip` may strike.
    void know(std::uint64_t set_magic) { set_magic_ = set_magic; }

    // The fault that strikes the request; one of its times is used up. `first`: the first sector
    // that a read is about to return.
    std::optional<Fault> strike(const io::IoRequest& request, std::span<const std::byte> first);

private:
    bool checked(std::span<const std::byte> first) const;

    std::vector<Fault> faults_;
    std::optional<std::uint64_t> set_magic_;
};

}  // namespace uc::sim
