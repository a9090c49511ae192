// What the volumes of a set share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "alloc/allocator.h"
#include "alloc/bucket_table.h"
#include "core/options.h"
#include "core/stats.h"
#include "gc/collector.h"
#include "index/tree.h"
#include "io/block_device.h"
#include "io/clock.h"
#include "journal/journal.h"
#include "policy/congestion.h"

namespace uc::core {

struct Services {
    async::Executor& executor;
    io::Clock& clock;
    Rng& rng;
    io::BlockDevice& cache;
    alloc::BucketTable& table;
    alloc::Allocator& allocator;
    journal::Journal& journal;
    index::Tree& tree;
    gc::Collector& collector;
    policy::Congestion& congestion;
    SetOptions& options;
    SetStats& counters;
    // A request of a user arrived: idle volumes are idle no more.
    std::function<void()> foreground{};
    std::function<std::uint64_t()> all_backing_sectors{};
    std::function<std::uint64_t()> flash_only_dirty{};
    // Dirty sectors that have a backing device to go to, and sectors that went there so far.
    std::function<std::uint64_t()> cached_dirty{};
    std::function<std::uint64_t()> written_back{};
    // Requests that wait for a bucket. While there are any, write-back does not mind its rate.
    std::uint32_t space_waiters = 0;
    std::function<void()> space_wanted{};
    // Whether a volume may have this label.
    std::function<Result<void>(const std::string& label, const ondisk::Uuid& self)> check_label{};
    // Records a label in the uuid table; durable when it returns.
    std::function<Task<Result<void>>(Inode, std::string)> label_changed{};
};

}  // namespace uc::core
