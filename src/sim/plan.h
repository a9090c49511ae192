// What a seed stands for: the machine, the devices and the course of a run, drawn before it begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "core/options.h"
#include "ondisk/superblock.h"

namespace uc::sim {

struct VolumePlan {
    bool flash_only = false;
    std::uint64_t sectors = 0;  // of the virtual device
    std::uint64_t data_offset = 16;
    ondisk::CacheMode mode = ondisk::CacheMode::writethrough;
    core::VolumeOptions options;
    bool discard = false;  // the backing device supports it
    // Of the backing device. Requests keep to it: smaller ones are a matter of the front end.
    std::uint32_t logical_block = 1;
};

struct Plan {
    std::uint32_t bucket_sectors = 128;
    std::uint32_t block_sectors = 1;
    std::uint64_t nbuckets = 577;
    ondisk::Replacement replacement = ondisk::Replacement::lru;
    bool discard = false;
    std::uint32_t atomic_sectors = 1;  // of the cache device, like the next
    std::uint32_t logical_block = 1;
    core::SetOptions options;
    std::vector<VolumePlan> volumes;
    unsigned cycles = 3;
    bool steady = false;   // on a core::SteadySet
    bool faults = false;   // errors, wrong bits, hangs in some phases
    bool outages = false;  // devices that go away and come back; steady sets only
    bool damage = false;   // wrong bytes on the disks between two lives
    bool aged = false;     // generations that are about to wrap
    bool deep = false;     // small nodes and many keys, for an index of three levels

    std::string describe() const;
};

Plan draw_plan(Rng& rng);

// Cuts a run down, to find out what a failure needs. The defaults cut nothing.
struct Limits {
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
    std::uint64_t lives = kNone;
    std::uint64_t ops = kNone;  // of all clients, over all lives
    std::uint64_t clients = kNone;
    std::uint64_t volumes = kNone;
    std::uint64_t sectors = kNone;  // of one request
    bool faults = true;             // errors, outages, damage, storms
    bool administration = true;
    bool discards = true;    // and zeroes
    std::uint64_t salt = 0;  // other chances under the same plan

    bool operator==(const Limits&) const = default;
    // "lives=2,ops=40,faults=0"; empty for the defaults.
    std::string text() const;
    // Nothing if the text is not of that form.
    static std::optional<Limits> parse(const std::string& text);
};
void apply(const Limits& limits, Plan& plan);

// One stretch of load.
struct Phase {
    enum class Pattern : std::uint8_t { random, sequential, hot };
    Pattern pattern = Pattern::random;
    unsigned ops = 100;
    unsigned clients = 1;
    std::uint32_t max_sectors = 16;
    unsigned unaligned_percent = 0;
    // Shares of the operations; writes take the rest of 100.
    unsigned reads = 30;
    unsigned flushes = 5;
    unsigned discards = 2;
    unsigned zeroes = 2;
    unsigned pauses = 1;
    unsigned fua_percent = 10;  // of writes and zeroes
};

Phase draw_phase(Rng& rng);
// Thousands of small writes all over the volumes, for many keys.
Phase scatter_phase();
void apply(const Limits& limits, Phase& phase);

}  // namespace uc::sim
