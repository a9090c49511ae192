// Where the structures of a golden cache image lie, so that a test can damage exactly one of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "golden_set.h"
#include "ondisk/bset.h"
#include "ondisk/jset.h"
#include "ondisk/superblock.h"

namespace uc::golden {

// A journal entry and where it starts.
struct PlacedEntry {
    std::uint64_t sector = 0;
    BucketIndex bucket = 0;
    ondisk::Jset jset;
};

struct PlacedNode {
    ondisk::Key key;  // that points at it
    BucketIndex bucket = 0;
    unsigned level = 0;
    ondisk::NodeImage image;
};

class Anatomy {
public:
    explicit Anatomy(FileBytes& file);

    const ondisk::Geometry& geometry() const { return geometry_; }
    std::uint64_t magic() const { return magic_; }
    const ondisk::Superblock& superblock() const { return superblock_; }
    // All valid entries, by seq; those that the newest one needs are replayed.
    const std::vector<PlacedEntry>& entries() const { return entries_; }
    const PlacedEntry& newest() const { return entries_.back(); }
    std::vector<PlacedEntry> replayed() const;
    // The nodes in use, parents before their children.
    const std::vector<PlacedNode>& nodes() const { return nodes_; }
    const PlacedNode& root() const { return nodes_.front(); }
    // The first leaf with at least so many sets; null if there is none.
    const PlacedNode* leaf(std::size_t sets) const;

    std::vector<std::byte> read(std::uint64_t sector, std::uint64_t sectors) const;
    void flip(std::uint64_t sector, std::uint64_t byte);
    void clear(std::uint64_t sector);
    void write(const PlacedEntry& entry);
    // Overwrites set `index` of a node by one with other keys (as many blocks).
    void write_set(const PlacedNode& node, std::size_t index, const std::vector<ondisk::Key>& keys);
    std::uint64_t sector_of_set(const PlacedNode& node, std::size_t index) const;

private:
    void read_slot(BucketIndex bucket);
    void walk(const ondisk::Key& key, unsigned level);

    FileBytes& file_;
    ondisk::Superblock superblock_;
    ondisk::Geometry geometry_;
    std::uint64_t magic_ = 0;
    std::vector<PlacedEntry> entries_;
    std::vector<PlacedNode> nodes_;
};

}  // namespace uc::golden
