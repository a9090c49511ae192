// Units shared by every layer. A sector is 512 bytes, always (format section 0).
#pragma once

#include <chrono>
#include <cstdint>

namespace uc {

constexpr std::uint64_t kSectorBytes = 512;

using Duration = std::chrono::nanoseconds;

// Monotonic time since an arbitrary start.
struct Instant {
    Duration since_start{0};
    constexpr auto operator<=>(const Instant&) const = default;
    constexpr Instant operator+(Duration d) const { return {since_start + d}; }
    constexpr Instant operator-(Duration d) const { return {since_start - d}; }
    constexpr Duration operator-(Instant rhs) const { return since_start - rhs.since_start; }
};

// Number of a bucket of the cache device, counted from the start of the device.
using BucketIndex = std::uint32_t;

// Number of a journal entry.
using JournalSeq = std::uint64_t;

// Index into the uuid table; INODE of the keys of a backing device or volume.
using Inode = std::uint32_t;

// Generation of a bucket: 8 bits that wrap, so there is no "<" (format section 3.2).
class Gen {
public:
    constexpr Gen() = default;
    constexpr explicit Gen(std::uint8_t raw) : raw_(raw) {}
    constexpr std::uint8_t raw() const { return raw_; }
    constexpr bool operator==(const Gen&) const = default;

    // How much newer this is than `older`; 0 if it is not newer.
    constexpr unsigned newer_than(Gen older) const {
        const unsigned d = static_cast<std::uint8_t>(raw_ - older.raw_);
        return d <= 128 ? d : 0;
    }
    // Plain distance modulo 256.
    constexpr unsigned distance_from(Gen older) const {
        return static_cast<std::uint8_t>(raw_ - older.raw_);
    }
    constexpr Gen next() const { return Gen(static_cast<std::uint8_t>(raw_ + 1)); }

private:
    std::uint8_t raw_ = 0;
};

template <class T>
constexpr T div_ceil(T a, T b) {
    return (a + b - 1) / b;
}

}  // namespace uc
