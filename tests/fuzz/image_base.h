// The golden sets as starting points of the image fuzzer: sparse copies in memory, and where their
// structures lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ondisk/superblock.h"
#include "sim/contents.h"

namespace uc::fuzz {

enum class Part : std::uint8_t { superblock, entry, priorities, uuids, node_set, raw, count_ };

struct Place {
    Part part = Part::raw;
    unsigned disk = 0;  // 0: the cache
    std::uint64_t sector = 0;
    std::uint64_t sectors = 0;
    std::uint64_t seed = 0;  // of the checksum of a node's set
};

struct Disk {
    sim::Contents contents;
    std::uint64_t sectors = 0;
};

struct BaseSet {
    std::string name;
    std::vector<Disk> disks;  // the cache first, then the backing devices
    ondisk::Geometry geometry;
    std::uint64_t magic = 0;
    std::vector<Place> places;
};

// Unpacks them all; those that have no cache device in the end are left out.
std::vector<BaseSet> load_base_sets();

std::vector<std::byte> read_sectors(const Disk& disk, std::uint64_t sector, std::uint64_t sectors);
// Makes magic and checksum of the structure right, as far as its other fields allow.
void repair(const BaseSet& base, const Place& place, std::vector<std::byte>& bytes);

}  // namespace uc::fuzz
