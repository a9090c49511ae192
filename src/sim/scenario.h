// One run of the simulator: a pure function of its seed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/mutations.h"

namespace uc::sim {

struct ScenarioOptions {
    std::uint64_t seed = 0;
    Mutations mutations;
    std::function<void(const std::string&)> log;  // progress in words
};

struct ScenarioResult {
    std::string failure;     // empty: passed
    std::uint64_t hash = 0;  // of everything that happened
    std::uint64_t events = 0;
    unsigned crashes = 0;

    bool ok() const { return failure.empty(); }
};

ScenarioResult run_scenario(const ScenarioOptions& options);

// "ucsim --seed N: what went wrong".
std::string failure_line(std::uint64_t seed, const ScenarioResult& result);

}  // namespace uc::sim
