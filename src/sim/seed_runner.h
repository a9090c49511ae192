// Runs a range of seeds in several child processes, so that a seed that aborts costs only itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/mutations.h"
#include "sim/coverage.h"
#include "sim/plan.h"

namespace uc::sim {

struct SeedRange {
    std::uint64_t first = 1;
    std::uint64_t last = 1;
    std::uint64_t count() const { return last - first + 1; }
};

struct Campaign {
    SeedRange range;
    unsigned jobs = 1;
    Mutations mutations;
    Limits limits;
};

// What became of one seed. One that killed its process has seen nothing.
struct SeedResult {
    std::uint64_t seed = 0;
    std::string failure;  // empty: passed
    Coverage seen;
};

// Called once per seed, in any order. False ends the campaign early.
using SeedReport = std::function<bool(const SeedResult& result)>;

// A text if processes cannot be started; empty otherwise.
std::string run_seeds(const Campaign& campaign, const SeedReport& report);

}  // namespace uc::sim
