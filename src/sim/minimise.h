// Cuts a failing run down to what its failure needs.
#pragma once

#include <cstdint>
#include <string>

#include "base/mutations.h"
#include "sim/plan.h"

namespace uc::sim {

struct Minimised {
    Limits limits;
    std::string failure;
    unsigned attempts = 0;
};

// `failure`: of the run as it is. Each attempt is a process of its own. The result fails in the
// same way, with other numbers.
Minimised minimise(std::uint64_t seed, const Mutations& mutations, const Limits& limits,
                   const std::string& failure);

// The failure without numbers and lists: what makes two runs fail in the same way.
std::string kind_of(const std::string& failure);

}  // namespace uc::sim
