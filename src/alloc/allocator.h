// Hands out buckets and, inside open buckets, space for data.
//
// Rule (format section 3.8): a bucket that any pointer on disk may still reach is not written
// before its incremented generation is durable. The allocator only hands out buckets that were made
// ready:
//  * at start-up, buckets to which nothing points, with a generation incremented in memory only (a
//    pointer that becomes durable carries it over a crash);
//  * later, what gc::Reclaimer releases after the priority table with the new generations is
//  durable.
//
// Reserves: the last buckets belong to priority tables, the ones before to nodes and the uuid
// table, so that reclaim, node splits and journal reclaim can always make progress
// (weakness 11.14). The kernel needs such unreferenced buckets, too, when it takes the set over
// after a crash.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

#include "alloc/bucket_table.h"
#include "async/sync.h"
#include "async/task.h"
#include "base/result.h"

namespace uc::alloc {

// Kinds of data that are never mixed in one bucket: dirty data keeps a bucket from being reclaimed,
// and flash-only volumes must not share with cached devices (section 3.9).
enum class Stream : std::uint8_t { clean, dirty, flash_only, count_ };

struct Space {
    ondisk::Ptr ptr;
    std::uint32_t sectors = 0;
};

class Allocator {
public:
    explicit Allocator(BucketTable& table);
    Allocator(const Allocator&) = delete;
    Allocator& operator=(const Allocator&) = delete;

    // Start-up: lists every bucket to which nothing points.
    void list_unreferenced();
    // Start-up with lost generations: buckets to which only stale pointers lead, for a new priority
    // table if nothing else is free. It makes their new generations durable, too.
    void list_for_table();

    // Data. At most `sectors`, a multiple of the block size and inside one bucket. The bucket is
    // pinned until unpin(). Empty: no bucket is free at once.
    std::optional<Space> try_allocate(Stream stream, std::uint32_t sectors);
    // Waits for a bucket. Errc::no_space: nothing can be reclaimed at present.
    Task<Result<Space>> allocate(Stream stream, std::uint32_t sectors);
    void pin(ondisk::Ptr ptr) { ++table_.of(ptr).pins; }
    void unpin(ondisk::Ptr ptr);

    // A bucket for a node or the uuid table. Waits as long as it takes, unless shut_down().
    Task<Result<BucketIndex>> take_metadata(Use use);
    // A bucket for the priority table: may use the last reserve.
    std::optional<BucketIndex> take_prio();
    // The on-disk structure in `bucket` is no longer reachable; `pointed_at`: some key on disk
    // still carries its present generation, as after replacing a node.
    void free_metadata(BucketIndex bucket, bool pointed_at);

    // Between the reclaimer and the allocator.
    void release(BucketIndex bucket);  // ready for use
    std::uint64_t free_buckets() const { return free_.size(); }
    std::uint64_t wanted() const;  // how many the reclaimer should make ready; 0 = enough
    async::Event& need() { return need_; }
    // A pass found no victim: waiting data allocations fail.
    void nothing_reclaimable();
    void shut_down();
    bool can_take_data() const { return free_.size() > reserve_; }

private:
    BucketIndex pop(Use use);
    bool open_bucket(Stream stream);
    void close_bucket(Stream stream);
    void check_level();

    struct Open {
        std::optional<BucketIndex> bucket;
        std::uint32_t used = 0;  // sectors
    };

    BucketTable& table_;
    std::deque<BucketIndex> free_;
    std::array<Open, static_cast<std::size_t>(Stream::count_)> open_;
    std::uint64_t prio_reserve_;
    std::uint64_t reserve_;  // prio and node reserve
    std::uint64_t low_water_;
    async::Event need_;
    async::Event freed_;
    std::uint64_t fruitless_ = 0;  // passes without a victim
    bool down_ = false;
};

}  // namespace uc::alloc
