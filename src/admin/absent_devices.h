// Backing devices that a set knows and that are not here: what the cache alone has of them, and
// what to do about it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/cache_set.h"

namespace uc::admin {

// One line per absent device with dirty data; `cache` is the name to begin with.
std::vector<std::string> absent_dirty_notes(const core::CacheSet& set, const std::string& cache);
// All of them: uuid, label, dirty_bytes.
nlohmann::json absent_json(const core::CacheSet& set);

}  // namespace uc::admin
