// An independent reader of a cache set: superblock, journal, priorities, uuid table, tree, content
// (format section 13.1 to 13.3), built on ondisk/ only. It judges what a stopped or crashed set
// left behind as strictly as the kernel would, and it is the reference for what each device holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ondisk/bset.h"
#include "ondisk/jset.h"
#include "ondisk/superblock.h"
#include "ondisk/uuid.h"
#include "sim/extent_map.h"

namespace uc::sim {

// Raw bytes of a device.
class ByteSource {
public:
    virtual ~ByteSource() = default;
    // False: cannot be read.
    virtual bool read(std::uint64_t offset, std::span<std::byte> out) const = 0;
    virtual std::uint64_t bytes() const = 0;
};

// A part of a device that the cache holds, in sectors of the key space.
struct CachedPart {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t cache_sector = 0;
    bool dirty = false;
};

class JournalImage;

class DiskChecker {
public:
    // Reads everything. What is wrong is in problems().
    explicit DiskChecker(const ByteSource& cache);

    // One line each; empty: the kernel would take the set and every rule of section 13.5 holds.
    const std::vector<std::string>& problems() const { return problems_; }
    // SYNC is not set: nothing below means anything.
    bool blank() const { return blank_; }

    const ondisk::Superblock& superblock() const { return sb_; }
    const std::vector<ondisk::UuidEntry>& uuids() const { return uuids_; }
    unsigned tree_level() const { return level_; }
    std::uint64_t nodes() const { return nodes_; }
    JournalSeq newest_seq() const { return newest_seq_; }
    // Where the priority and uuid tables are; for tests that damage them.
    const ondisk::Jset& newest_entry() const { return entries_.back(); }

    // A structure with a checksum, for tests that damage it: a wrong byte in it must be noticed.
    struct Place {
        enum class Kind : std::uint8_t { journal, priorities, node };
        Kind kind;
        std::uint64_t sector;
        std::uint64_t bytes;
        std::uint64_t spared;  // bytes at its beginning where damage looks like its absence
    };
    // Only such as the set cannot do without, or that must be seen to be torn.
    const std::vector<Place>& places() const { return places_; }
    // Buckets that some pointer on the disk names, be it stale or overridden.
    const std::vector<bool>& mentioned() const { return mentioned_; }
    Gen generation(std::uint64_t bucket) const { return buckets_[bucket].gen; }
    std::uint64_t buckets() const { return buckets_.size(); }
    // First bucket of the priority table.
    std::uint64_t priority_bucket() const { return entries_.back().prio_bucket[0]; }
    const ondisk::Geometry& geometry() const { return geometry_; }

    // Index of a backing device or volume; nothing if the set does not know it.
    std::optional<Inode> find(const ondisk::Uuid& uuid) const;
    // Usable extents, ascending; neighbours are not merged.
    std::vector<CachedPart> parts(Inode inode) const;

    // The content of a device: `backing` null for a flash-only volume. `data_offset` is 0 for
    // those.
    bool read_device(Inode inode, const ByteSource* backing, std::uint64_t data_offset,
                     std::uint64_t sector, std::span<std::byte> out) const;
    // Of the whole device; nothing if it cannot be read.
    std::optional<std::string> device_sha256(Inode inode, const ByteSource* backing,
                                             std::uint64_t data_offset,
                                             std::uint64_t sectors) const;

private:
    enum class Use : std::uint8_t { none, data, node, metadata };
    struct Bucket {
        Gen gen;
        Use use = Use::none;
    };
    struct Node;

    void problem(std::string text);
    bool read_sectors(std::uint64_t sector, std::span<std::byte> out) const;
    bool read_superblock();
    const ondisk::Jset* read_journal();
    void note_entries(const JournalImage& journal);
    bool read_priorities(std::uint64_t bucket);
    void read_uuids(const ondisk::Jset& newest);

    bool in_range(const ondisk::Key& key) const;
    unsigned staleness(ondisk::Ptr ptr) const;
    bool stale(ondisk::Ptr ptr) const { return staleness(ptr) != 0; }
    void note_gen(const ondisk::Key& key);
    void note_sets(const ondisk::NodeImage& image, const ondisk::Key& key);
    void claim(const ondisk::Key& key, Use use);
    void walk(const ondisk::Key& key, unsigned level, ondisk::Pos lower);
    std::optional<std::vector<ondisk::Key>> read_node(const ondisk::Key& key, unsigned level);
    void walk_children(const std::vector<ondisk::Key>& keys, const ondisk::Key& parent,
                       unsigned level, ondisk::Pos lower);
    void check_leaf(const std::vector<ondisk::Key>& keys, const ondisk::Key& node,
                    ondisk::Pos lower);
    void claim_all();
    void check_extents();

    const ByteSource& cache_;
    std::vector<std::string> problems_;
    bool blank_ = false;
    ondisk::Superblock sb_;
    ondisk::Geometry geometry_;
    std::vector<ondisk::Jset> entries_;  // the needed ones
    std::vector<Bucket> buckets_;
    std::vector<bool> mentioned_;
    std::vector<Place> places_;
    std::vector<ondisk::UuidEntry> uuids_;
    std::vector<ondisk::Key> leaf_keys_;  // usable or not, as found
    std::vector<ondisk::Key> node_keys_;  // followed
    std::map<std::uint64_t, ExtentMap> devices_;
    unsigned level_ = 0;
    std::uint64_t nodes_ = 0;
    JournalSeq newest_seq_ = 0;
};

}  // namespace uc::sim
