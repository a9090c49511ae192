// Runs a range of seeds in several child processes, so that a seed that aborts costs only itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/mutations.h"

namespace uc::sim {

struct SeedRange {
    std::uint64_t first = 1;
    std::uint64_t last = 1;
    std::uint64_t count() const { return last - first + 1; }
};

// Called once per seed, in any order; an empty failure means it passed. False ends the run early.
using SeedReport = std::function<bool(std::uint64_t seed, const std::string& failure)>;

// A text if processes cannot be started; empty otherwise.
std::string run_seeds(SeedRange range, unsigned jobs, const Mutations& mutations,
                      const SeedReport& report);

}  // namespace uc::sim
