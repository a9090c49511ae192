#include "sim/extent_map.h"

#include <utility>
#include <vector>

namespace uc::sim {

void ExtentMap::insert(const ondisk::Key& key) {
    const std::uint64_t start = key.start();
    const std::uint64_t end = key.end();
    auto at = by_start_.upper_bound(start);
    if (at != by_start_.begin() && std::prev(at)->second.end() > start) --at;
    std::vector<ondisk::Key> remains;
    while (at != by_start_.end() && at->first < end) {
        const ondisk::Key& old = at->second;
        if (old.start() < start) remains.push_back(old.part(old.start(), start));
        if (old.end() > end) remains.push_back(old.part(end, old.end()));
        at = by_start_.erase(at);
    }
    for (const ondisk::Key& rest : remains) by_start_.emplace(rest.start(), rest);
    by_start_.emplace(start, key);
}

}  // namespace uc::sim
