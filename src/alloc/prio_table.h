// The priority table on disk (format section 3.4): reading the chain at open, writing a new one.
#pragma once

#include <string>
#include <vector>

#include "alloc/bucket_table.h"
#include "async/task.h"
#include "base/result.h"
#include "io/block_device.h"

namespace uc::alloc {

// Reads the chain that starts at `first` into the table (gen, prio, last_gc, durable_gen) and
// returns its members. Errors: Errc::io, Errc::corrupt; `problem` then names the bucket and the
// reason.
Task<Result<std::vector<BucketIndex>>> read_prio_table(io::BlockDevice& cache, std::uint64_t first,
                                                       std::uint64_t set_magic, BucketTable& table,
                                                       std::string& problem);

// Writes the table as it is now into `members` (geometry.prio_buckets() free buckets), last first.
// Not durable when it returns: the journal entry that points at members[0] flushes the device
// first.
Task<Result<void>> write_prio_table(io::BlockDevice& cache, const std::vector<BucketIndex>& members,
                                    std::uint64_t seq, std::uint64_t set_magic,
                                    const BucketTable& table);

}  // namespace uc::alloc
