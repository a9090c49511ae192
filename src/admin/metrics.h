// A running set as metrics for Prometheus and its relatives.
#pragma once

#include <string>

#include "admin/served_set.h"

namespace uc::admin {

enum class MetricsFormat : std::uint8_t {
    text,         // text/plain; version=0.0.4
    openmetrics,  // application/openmetrics-text; version=1.0.0
};

// Every number of the attribute table as a gauge, in base units (seconds, bytes, ratios), and the
// engine's counters and latencies. The names are stable.
std::string metrics_text(const ServedSet& served, MetricsFormat format);

}  // namespace uc::admin
