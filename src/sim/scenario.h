// One run of the simulator: a pure function of its seed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/mutations.h"
#include "sim/coverage.h"
#include "sim/plan.h"

namespace uc::sim {

struct ScenarioOptions {
    std::uint64_t seed = 0;
    Mutations mutations;
    Limits limits;
    std::function<void(const std::string&)> log;  // progress in words
    std::string trace_volume;                     // "back1": log what happens to one of its sectors
    std::uint64_t trace_sector = 0;
};

struct ScenarioResult {
    std::string failure;     // empty: passed
    std::uint64_t hash = 0;  // of everything that happened
    std::uint64_t events = 0;
    Coverage seen;

    bool ok() const { return failure.empty(); }
};

ScenarioResult run_scenario(const ScenarioOptions& options);

// What replays the run: "ucsim --seed N --limits ...".
std::string replay_line(std::uint64_t seed, const Limits& limits);

}  // namespace uc::sim
