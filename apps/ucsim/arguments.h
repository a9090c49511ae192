// What ucsim was asked to do.
#pragma once

#include <optional>
#include <string>

#include "base/mutations.h"
#include "sim/plan.h"
#include "sim/seed_runner.h"

namespace uc::sim {

struct Arguments {
    std::optional<std::uint64_t> seed;
    std::optional<SeedRange> range;
    unsigned jobs = 1;
    bool verbose = false;
    bool minimise = true;
    bool coverage = false;  // a class of events that never happened is a failure
    bool list_mutations = false;
    bool measure_mutations = false;
    Mutations mutations;
    std::string mutation;  // its name
    Limits limits;
    std::string trace_volume;
    std::uint64_t trace_sector = 0;
};

// Nothing: the program ends with `status`.
std::optional<Arguments> parse_arguments(int argc, char** argv, int& status);

}  // namespace uc::sim
