// What the buckets of a cache device hold and how old it is, for `priority_stats`.
#pragma once

#include <array>
#include <cstdint>

#include "alloc/bucket_table.h"

namespace uc::core {

struct BucketSurvey {
    static constexpr unsigned kQuantiles = 31;

    std::uint32_t unused_percent = 0, clean_percent = 0, dirty_percent = 0, metadata_percent = 0;
    // Ages of buckets with data: 0 = used just now, 32768 = the oldest that there can be.
    std::uint32_t average_age = 0;
    std::uint64_t sectors_per_quantile = 0;
    std::array<std::uint16_t, kQuantiles> ages{};  // ascending
};

// Looks at 65536 buckets at most, evenly spread, so that it takes no time worth mentioning on any
// device. Exact up to that many.
BucketSurvey survey_buckets(const alloc::BucketTable& table);

}  // namespace uc::core
