// Results of administration: the error is one line for a human (what, where, what to do).
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "base/result.h"
#include "core/report.h"

namespace uc::admin {

template <class T = void>
using Outcome = tl::expected<T, std::string>;

// "disk.img: write failed: No space left on device"; the report's refusal, if there is one, instead
// of the error's own words.
std::string explain(const std::string& what, const Error& error, const core::Report& report = {});

}  // namespace uc::admin
