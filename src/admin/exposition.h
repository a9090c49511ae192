// Writes metrics in the text format of Prometheus or in OpenMetrics.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/metrics.h"
#include "base/latency_histogram.h"

namespace uc::admin {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

class Exposition {
public:
    enum class Type : std::uint8_t { counter, gauge, histogram };

    explicit Exposition(MetricsFormat format) : format_(format) {}

    // Begins a family; its samples follow. `name` is without the "_total" of counters.
    void family(std::string_view name, Type type, std::string_view help);
    void sample(const Labels& labels, double value);
    void sample(const Labels& labels, std::uint64_t value);
    // In seconds.
    void histogram(const Labels& labels, const LatencyHistogram& latencies);

    std::string finish();

private:
    void line(std::string_view suffix, const Labels& labels, std::string_view value);

    MetricsFormat format_;
    std::string name_;
    Type type_ = Type::gauge;
    std::string out_;
};

}  // namespace uc::admin
