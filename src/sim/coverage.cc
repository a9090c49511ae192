#include "sim/coverage.h"

#include <fmt/format.h>

namespace uc::sim {

const char* text_of(Seen seen) {
    static constexpr const char* kTexts[] = {
#define UC_SEEN(name, what) what,
        UC_SEEN_LIST(UC_SEEN)
#undef UC_SEEN
    };
    return kTexts[static_cast<std::size_t>(seen)];
}

void Coverage::merge(const Coverage& other) {
    for (std::size_t i = 0; i < kSeen; ++i) counts_[i] += other.counts_[i];
}

std::string Coverage::table() const {
    std::string text;
    for (std::size_t i = 0; i < kSeen; ++i) {
        text += fmt::format("{:>12}  {}\n", counts_[i], text_of(static_cast<Seen>(i)));
    }
    return text;
}

}  // namespace uc::sim
