// How fast dirty data is written back: the rate controller and the pacing (format section 7.8).
#pragma once

#include <cstdint>

#include "base/units.h"

namespace uc::policy {

// What the controller looks at in one round. Sectors unless said otherwise.
struct RateInputs {
    std::uint64_t dirty = 0;                // of this volume
    std::uint64_t backing_sectors = 0;      // of this volume
    std::uint64_t all_backing_sectors = 0;  // of all attached backing devices
    std::uint64_t flash_only_dirty = 0;     // of all flash-only volumes: never written back
    std::uint64_t buckets = 0;              // of the cache device
    std::uint64_t available_buckets = 0;    // that could be reused at once
    std::uint32_t bucket_sectors = 0;
    std::uint32_t in_use_percent = 0;
    bool collecting = false;  // a garbage collection is running

    std::uint32_t writeback_percent = 10;  // 0: rounds do nothing
    std::uint32_t update_s = 5;
    std::uint32_t p_term_inverse = 40;
    std::uint32_t i_term_inverse = 10000;
    std::uint64_t minimum = 8;  // per second
    bool consider_fragment = true;
    std::uint32_t fragment_low = 1, fragment_mid = 10, fragment_high = 1000;
};

// One per volume.
class WritebackRate {
public:
    static constexpr std::uint64_t kStart = 1024;
    static constexpr std::uint64_t kLimit = 1'000'000'000;
    static constexpr unsigned kIdleRounds = 6;

    // The last round, for display.
    struct Terms {
        std::int64_t target = 0;
        std::int64_t proportional = 0;
        std::int64_t integral = 0;
        std::int64_t change = 0;  // of the rate against the round before
    };

    // One round; to be called every update_s seconds.
    void update(const RateInputs& in, Instant now);

    // Any request of a user on the set: ends the unlimited rate of an idle set.
    void foreground_io() { idle_rounds_ = 0; }
    bool unlimited() const { return idle_rounds_ >= kIdleRounds; }

    // Sectors per second; kLimit while unlimited.
    std::uint64_t rate() const { return unlimited() ? kLimit : rate_; }
    // By hand; the next round overrides it. At least 1.
    void set_rate(std::uint64_t sectors_per_s);

    // Pacing: `sectors` were submitted at `now`; then the next I/O is due at next().
    void submitted(std::uint64_t sectors, Instant now);
    Instant next() const { return next_; }

    const Terms& terms() const { return terms_; }

private:
    std::uint64_t rate_ = kStart;
    std::int64_t integral_ = 0;
    unsigned idle_rounds_ = 0;
    Instant next_{};
    Terms terms_{};
};

}  // namespace uc::policy
