// What is known of every bucket: generation, use, age, and exact counts of live and dirty sectors.
//
// The counts are maintained at each change of the index (weakness 11.13: the kernel finds them only
// by stopping the world), so "may this bucket be reclaimed?" is a look at one record.
//
// Three generations per bucket:
//   gen          the current one; pointers with an older one are stale
//   durable_gen  the one in the newest durable priority table, or learned from a durable pointer; a
//   crash
//                cannot make a pointer valid again that is stale against it
//   last_gc      the oldest generation of any pointer that may be on disk (format section 3.2)
#pragma once

#include <cstdint>
#include <vector>

#include "base/mutations.h"
#include "base/units.h"
#include "ondisk/geometry.h"
#include "ondisk/key.h"
#include "ondisk/prio_set.h"

namespace uc::alloc {

enum class Use : std::uint8_t {
    none,      // nothing points at it
    reserved,  // superblock area
    journal,
    prio,
    uuid,
    node,
    data,
};

struct Bucket {
    Gen gen;
    Gen durable_gen;
    Gen last_gc;
    Use use = Use::none;
    bool listed = false;     // on a free list, or waiting for the table to be written
    bool open = false;       // being filled with data
    bool seen = false;       // opening: a key on disk points here, be it overridden by a later one
    std::uint16_t pins = 0;  // I/O in flight, or data whose key is not in the index yet
    std::int32_t touched = 0;  // age stamp, see BucketTable::prio
    std::uint32_t live = 0;    // sectors that valid keys refer to
    std::uint32_t dirty = 0;   // of these, dirty
};

class BucketTable {
public:
    explicit BucketTable(const ondisk::Geometry& geometry, Mutations mutations = {});

    const ondisk::Geometry& geometry() const { return geometry_; }
    std::uint32_t size() const { return static_cast<std::uint32_t>(buckets_.size()); }
    Bucket& at(BucketIndex bucket) { return buckets_[bucket]; }
    const Bucket& at(BucketIndex bucket) const { return buckets_[bucket]; }
    BucketIndex bucket_of(ondisk::Ptr ptr) const {
        return static_cast<BucketIndex>(ptr.sector() / geometry_.bucket_sectors);
    }
    Bucket& of(ondisk::Ptr ptr) { return buckets_[bucket_of(ptr)]; }
    const Bucket& of(ondisk::Ptr ptr) const { return buckets_[bucket_of(ptr)]; }

    // How many generations the pointer is behind; 0 = valid. For pointers into the device only.
    unsigned staleness(ondisk::Ptr ptr) const { return behind(ptr.gen(), of(ptr).gen); }
    bool stale(ondisk::Ptr ptr) const { return staleness(ptr) != 0; }
    // Stale, and no crash can make it valid again.
    bool durably_stale(ondisk::Ptr ptr) const {
        return behind(ptr.gen(), of(ptr).durable_gen) != 0;
    }

    // A valid extent key enters or leaves the index. Stale ones and records are ignored.
    void add(const ondisk::Key& key);
    void remove(const ondisk::Key& key);
    std::uint64_t dirty_sectors(std::uint64_t inode) const {
        return inode < dirty_by_inode_.size() ? dirty_by_inode_[inode] : 0;
    }
    void clear_accounts();

    // Opening. The table on disk cannot be read: every generation is unknown until a pointer is
    // learned.
    void lose_generations();
    bool generations_lost() const { return generations_lost_; }
    // A pointer found on disk; a newer one raises the generation (13.2).
    void learn(ondisk::Ptr ptr);

    void set_use(BucketIndex bucket, Use use);
    // Makes all pointers into the bucket stale. Nothing dirty may be in it.
    void invalidate(BucketIndex bucket);
    // Could be invalidated now: clean data or freed metadata, not in use, distance rule holds.
    bool reclaimable(BucketIndex bucket) const;

    // Ageing (section 3.5) without a loop over all buckets: a bucket's prio falls by one with each
    // tick of `epoch`, starting from kPrioInitial at its last use.
    void touch(BucketIndex bucket) { buckets_[bucket].touched = epoch_; }
    void account_request(std::uint64_t sectors);
    std::uint16_t prio(BucketIndex bucket) const;
    void set_prio(BucketIndex bucket, std::uint16_t prio);

    // Buckets that are dirty or hold metadata, per cent of all (section 6.2).
    std::uint32_t in_use_percent() const {
        return static_cast<std::uint32_t>(in_use_ * 100 / buckets_.size());
    }
    std::uint64_t in_use_buckets() const { return in_use_; }

private:
    // I20: modulo 256.
    unsigned behind(Gen pointer, Gen bucket) const {
        if (mutations_.has(Mutation::gens_without_wrap)) {
            return bucket.raw() > pointer.raw() ? bucket.raw() - pointer.raw() : 0u;
        }
        return bucket.newer_than(pointer);
    }
    static bool counts_as_used(const Bucket& bucket) {
        return bucket.dirty != 0 || (bucket.use != Use::none && bucket.use != Use::data);
    }

    ondisk::Geometry geometry_;
    Mutations mutations_;
    std::vector<Bucket> buckets_;
    std::vector<std::uint64_t> dirty_by_inode_;
    std::uint64_t in_use_ = 0;
    std::int32_t epoch_ = 0;
    std::uint64_t ageing_credit_;
    bool generations_lost_ = false;
};

// Distance at which a bucket is left alone until garbage collection has found that older pointers
// are gone. The format's limit is 96 (section 3.2); a pointer that only the journal or an unwritten
// leaf hides may be one pass older than last_gc says, hence less than half.
inline constexpr unsigned kMaxGenDistance = 40;

}  // namespace uc::alloc
