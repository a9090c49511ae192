// Sequential runs of one volume: tells how long the run is that a request belongs to (format
// section 7.2).
#pragma once

#include <array>
#include <cstdint>

#include "base/units.h"

namespace uc::policy {

// Constant time per request, no allocation. About 6 KiB per volume.
class SequentialRuns {
public:
    static constexpr unsigned kRuns = 128;
    static constexpr Duration kExpiry = std::chrono::seconds(5);

    SequentialRuns();

    // Notes a request and returns how long its run is by now, this request included, in sectors:
    // the value that is compared with the sequential cutoff and with the congestion limit.
    std::uint64_t observe(std::uint64_t start, std::uint64_t sectors, Instant now);

private:
    using Slot = std::uint8_t;
    static constexpr Slot kNone = 255;
    static constexpr unsigned kChains = 256;

    struct Run {
        std::uint64_t end = 0;
        std::uint64_t sectors = 0;
        Instant expires{};
        Slot older = kNone, newer = kNone;  // by last use
        Slot next = kNone;                  // in the chain of its end
        bool listed = false;                // is in a chain
    };

    static unsigned chain_of(std::uint64_t end);
    Slot find(std::uint64_t start, Instant now) const;
    void add_to_chain(Slot slot);
    void remove_from_chain(Slot slot);
    void make_newest(Slot slot);

    std::array<Run, kRuns> runs_{};
    std::array<Slot, kChains> chains_{};
    Slot oldest_ = 0;
    Slot newest_ = kRuns - 1;
};

}  // namespace uc::policy
