// Why something was refused, in words: structure, place, reason, and what to do. Filled beside an
// Error, whose text is static.
#pragma once

#include <string>
#include <vector>

namespace uc::core {

struct Report {
    std::string refusal;  // one line; empty if nothing was refused
    std::vector<std::string>
        notes;  // "journal replay done, 12 keys in 3 entries, seq 40" and the like
};

}  // namespace uc::core
