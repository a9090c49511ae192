#include "core/bucket_survey.h"

#include <algorithm>
#include <vector>

namespace uc::core {

namespace {
constexpr std::uint32_t kMostLooks = 65536;
}

BucketSurvey survey_buckets(const alloc::BucketTable& table) {
    BucketSurvey out;
    const std::uint32_t looks = std::min(table.size(), kMostLooks);
    std::uint64_t unused = 0, clean = 0, dirty = 0, metadata = 0, sum = 0;
    std::vector<std::uint16_t> ages;
    ages.reserve(looks);
    for (std::uint64_t i = 0; i < looks; ++i) {
        const auto index = static_cast<BucketIndex>(i * table.size() / looks);
        const alloc::Bucket& bucket = table.at(index);
        const bool data = bucket.use == alloc::Use::data && bucket.live != 0;
        if (bucket.use != alloc::Use::data && bucket.use != alloc::Use::none) {
            ++metadata;
        } else if (!data) {
            ++unused;
        } else {
            ++(bucket.dirty != 0 ? dirty : clean);
            const int age = ondisk::kPrioInitial - table.prio(index);
            ages.push_back(static_cast<std::uint16_t>(age));
            sum += ages.back();
        }
    }
    const auto percent = [looks](std::uint64_t n) {
        return static_cast<std::uint32_t>(n * 100 / std::max<std::uint64_t>(looks, 1));
    };
    out.unused_percent = percent(unused);
    out.clean_percent = percent(clean);
    out.dirty_percent = percent(dirty);
    out.metadata_percent = percent(metadata);
    if (ages.empty()) return out;
    std::ranges::sort(ages);
    out.average_age = static_cast<std::uint32_t>(sum / ages.size());
    const std::uint64_t with_data = ages.size() * table.size() / looks;
    out.sectors_per_quantile =
        with_data * table.geometry().bucket_sectors / (BucketSurvey::kQuantiles + 1);
    for (std::size_t i = 0; i < out.ages.size(); ++i) {
        out.ages[i] = ages[ages.size() * (i + 1) / (BucketSurvey::kQuantiles + 1)];
    }
    return out;
}

}  // namespace uc::core
