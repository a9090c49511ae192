// A small set of sector ranges, for exceptional times: a sorted list without overlaps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace uc::core {

struct SectorRange {
    std::uint64_t from = 0, to = 0;  // [from, to)
    bool operator==(const SectorRange&) const = default;
};

class RangeSet {
public:
    bool empty() const { return ranges_.empty(); }
    const std::vector<SectorRange>& ranges() const { return ranges_; }

    bool overlaps(std::uint64_t from, std::uint64_t to) const {
        return from < to && std::ranges::any_of(ranges_, [&](const SectorRange& r) {
                   return r.from < to && from < r.to;
               });
    }

    void add(std::uint64_t from, std::uint64_t to) {
        if (from >= to) return;
        std::vector<SectorRange> kept;
        for (const SectorRange& r : ranges_) {
            if (r.to < from || to < r.from) {
                kept.push_back(r);
            } else {  // overlapping or touching
                from = std::min(from, r.from);
                to = std::max(to, r.to);
            }
        }
        kept.push_back({from, to});
        std::ranges::sort(kept, {}, &SectorRange::from);
        ranges_ = std::move(kept);
    }

    void remove(std::uint64_t from, std::uint64_t to) {
        std::vector<SectorRange> kept;
        for (const SectorRange& r : ranges_) {
            if (r.from < std::min(r.to, from)) kept.push_back({r.from, std::min(r.to, from)});
            if (std::max(r.from, to) < r.to) kept.push_back({std::max(r.from, to), r.to});
        }
        ranges_ = std::move(kept);
    }

private:
    std::vector<SectorRange> ranges_;
};

}  // namespace uc::core
