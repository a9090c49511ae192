// A cache set: one cache device, the backing devices attached to it and its flash-only volumes. All
// calls belong to the set's executor; those that return a Task may suspend.
//
// Life: open() -> add_backing()* -> (I/O) -> stop(). The devices, clock, rng and executor outlive
// the set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "base/rng.h"
#include "core/bucket_survey.h"
#include "core/options.h"
#include "core/range_set.h"
#include "core/report.h"
#include "core/stats.h"
#include "core/volume.h"
#include "io/block_device.h"
#include "io/clock.h"
#include "ondisk/superblock.h"

namespace uc::core {

// What the engine gets from outside; nothing else (no clock, no randomness, no thread of its own).
struct Env {
    async::Executor& executor;
    io::Clock& clock;
    Rng& rng;
};

enum class AttachMode : std::uint8_t {
    known,   // only if its superblock names this set (state clean or dirty), or it is new to it
    attach,  // attach it now: states none and stale get a new index
};

// A backing device or flash-only volume of a set, with what administration needs beyond I/O.
class SetVolume : public Volume {
public:
    virtual Inode inode() const = 0;  // meaningless while it is not attached
    virtual const ondisk::Uuid& uuid() const = 0;
    virtual bool flash_only() const = 0;
    virtual bool attached() const = 0;               // false: everything goes to the backing device
    virtual ondisk::BackingState state() const = 0;  // none for flash-only volumes
    virtual ondisk::CacheMode cache_mode() const = 0;
    virtual const std::string& backing_name() const = 0;  // device path; empty for flash-only
    virtual std::string label() const = 0;
    virtual std::uint64_t dirty_sectors() const = 0;
    virtual const VolumeStats& stats() const = 0;
    virtual VolumeOptions& options() = 0;
    // Call after changing options(): wakes the write-back task.
    virtual void options_changed() = 0;
    // Durable when it returns.
    virtual Task<Result<void>> set_cache_mode(ondisk::CacheMode mode) = 0;
    virtual Task<Result<void>> set_label(std::string label) = 0;
    // Writes all dirty data back at full speed (as far as it was dirty at the call) and waits until
    // that is durable on the backing device.
    virtual Task<Result<void>> write_back_all() = 0;
    // Not empty: dirty data cannot be written back; which device refuses and why. Stays until a
    // whole round over the dirty data went well.
    virtual std::string writeback_trouble() const = 0;
    // Between these nothing new becomes dirty: writes go to the backing device as well, whatever
    // the cache mode. They nest; the mode on disk stays. Flash-only volumes do not mind.
    virtual void pause_dirtying() = 0;
    virtual void resume_dirtying() = 0;
};

// What only the cache has of a device, in sectors of its backing device.
struct DirtyRanges {
    std::vector<SectorRange> ranges;  // ascending
    std::uint64_t dirty_sectors = 0;
    bool complete = true;  // false: part of the index cannot be read, the list has less than that
};

// A backing device that the set knows and that is not in service.
struct AbsentDevice {
    ondisk::Uuid uuid;
    std::string label;
    std::uint64_t dirty_sectors = 0;  // that only the cache has
};

class CacheSet {
public:
    virtual ~CacheSet() = default;

    // Opens the set on `cache`, a cache device; a blank one is initialised. On refusal the report
    // names structure, bucket and reason, and no byte was changed.
    static Task<Result<std::unique_ptr<CacheSet>>> open(Env env, io::BlockDevice& cache,
                                                        SetOptions options, Report& report);

    // Adds a backing device. The volume lives until detach_and_forget() or the set's end.
    virtual Task<Result<SetVolume*>> add_backing(io::BlockDevice& device, AttachMode mode,
                                                 Report& report) = 0;
    virtual Task<Result<SetVolume*>> create_flash_volume(std::uint64_t sectors,
                                                         std::string label) = 0;
    // Writes dirty data back, marks the device as free (state none) and forgets it in the uuid
    // table. The volume stays usable, uncached (Reason::no_set), until the set stops.
    virtual Task<Result<void>> detach(SetVolume& volume) = 0;
    // Attaches a volume that was detached, or that runs without the set, while it is in use.
    virtual Task<Result<void>> reattach(SetVolume& volume, Report& report) = 0;
    // Of a device that the set knows, in service or not.
    virtual Task<Result<DirtyRanges>> dirty_ranges(ondisk::Uuid uuid) = 0;
    // DISCARDS DIRTY DATA. The cache is gone: the volume goes on with what its backing device has.
    virtual Task<Result<void>> abandon(SetVolume& volume) = 0;
    // DISCARDS DIRTY DATA. The set goes on without a backing device that is not in service.
    virtual Task<Result<void>> forget_device(ondisk::Uuid uuid) = 0;
    // Orderly end: no new requests (they fail with Errc::stopped), nodes and journal written. Dirty
    // data stays in the cache. The object can only be destroyed afterwards.
    virtual Task<Result<void>> stop() = 0;
    // Runs a full garbage collection pass now.
    virtual Task<Result<void>> collect_garbage() = 0;

    virtual const std::vector<SetVolume*>& volumes() const = 0;
    // Backing devices that the set knows and that are not in service, in the table's order.
    virtual std::vector<AbsentDevice> absent_devices() const = 0;
    virtual const ondisk::Superblock& superblock() const = 0;
    virtual const std::string& cache_name() const = 0;
    virtual SetOptions& options() = 0;
    virtual Task<Result<void>> set_replacement(ondisk::Replacement policy) = 0;
    virtual SetStats stats() const = 0;
    virtual std::uint32_t in_use_percent() const = 0;  // dirty and metadata buckets (section 6.2)
    virtual unsigned tree_depth() const = 0;
    virtual std::uint64_t btree_cache_bytes() const = 0;
    virtual std::uint64_t root_usage_percent() const = 0;
    struct BucketCounts {
        std::uint64_t unused = 0, clean = 0, dirty = 0, metadata = 0;
    };
    virtual BucketCounts bucket_counts() const = 0;
    virtual BucketSurvey survey() const = 0;
    // Not empty: the set has failed (journal or node writes); says why.
    virtual const std::string& failure() const = 0;

    // One line on what the parts of the set are waiting for, for reports of a stall.
    virtual std::string describe() const = 0;

    // Tests and simulator: walks everything in memory and on the cache device and returns the
    // broken rules of section 13.5 and of the incremental accounts. Empty = sound. Needs a quiet
    // set.
    virtual Task<std::vector<std::string>> check_invariants() = 0;
};

}  // namespace uc::core
