// Wrong bytes on a disk that stands still: a bit that flipped, a sector that another write was
// meant for, one that reads as zeroes. Only in structures that carry a checksum and that are
// needed; what the format cannot notice, nobody can promise to (11.9).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "sim/sim_disk.h"

namespace uc::sim {

struct Damage {
    std::string what;
    std::uint64_t sector = 0;
    std::vector<std::byte> before;  // the sector as it was
};

// Nothing if there is nothing to damage.
std::optional<Damage> damage(SimDisk& cache, Rng& rng);
void undo(const Damage& damage, SimDisk& cache);

// Moves the generations of all buckets that nothing names close to the wrap, as after a long life.
void age_generations(SimDisk& cache, Rng& rng);

// Counts generations that went from 255 to 0 between two looks.
class GenerationWatch {
public:
    std::uint64_t wraps_since(const SimDisk& cache);

private:
    std::vector<std::uint8_t> last_;
};

}  // namespace uc::sim
