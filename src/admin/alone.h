// Serving backing devices though the cache device is missing (`serve --without-cache`).
//
// Only what the cache cannot have newer data of: a dirty device is refused. A clean one is marked
// stale before its first write can happen, so what the cache has of it is never used again; when it
// meets the set again it gets a new index there. In the place of the cache stands an empty one in
// memory, to which nothing is attached.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "admin/outcome.h"
#include "async/task.h"
#include "io/block_device.h"

namespace uc::admin {

// Makes the backing devices ready and returns the device to be opened as their cache.
Task<Outcome<std::shared_ptr<io::BlockDevice>>> go_without_cache(std::vector<std::string> backings);

}  // namespace uc::admin
