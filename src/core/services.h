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
    std::function<void()> foreground;
    std::function<std::uint64_t()> all_backing_sectors;
    std::function<std::uint64_t()> flash_only_dirty;
    // Records a label in the uuid table; durable when it returns.
    std::function<Task<Result<void>>(Inode, std::string)> label_changed;
};

}  // namespace uc::core
