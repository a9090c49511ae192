// Counts how long requests took, in powers of two of a nanosecond. Constant size, no allocation:
// recording one costs a few instructions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/units.h"

namespace uc {

class LatencyHistogram {
public:
    // Bucket i holds what took at most 2^(i + kFirst) ns: from 1 us to 17 s. The last one holds the
    // rest.
    static constexpr unsigned kFirst = 10;
    static constexpr unsigned kBuckets = 26;

    static constexpr Duration limit(unsigned bucket) {
        return Duration(std::int64_t{1} << (bucket + kFirst));
    }

    void add(Duration took) {
        const auto ns = static_cast<std::uint64_t>(std::max<Duration::rep>(took.count(), 1));
        const unsigned width = static_cast<unsigned>(std::bit_width(ns - 1));
        ++counts_[std::clamp(width, kFirst, kFirst + kBuckets - 1) - kFirst];
        ++count_;
        sum_ += Duration(static_cast<Duration::rep>(ns));
    }

    std::uint64_t in_bucket(unsigned bucket) const { return counts_[bucket]; }
    std::uint64_t count() const { return count_; }
    Duration sum() const { return sum_; }

private:
    std::array<std::uint64_t, kBuckets> counts_{};
    std::uint64_t count_ = 0;
    Duration sum_{0};
};

}  // namespace uc
