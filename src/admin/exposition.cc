#include "admin/exposition.h"

#include <fmt/format.h>

namespace uc::admin {

namespace {

std::string_view word(Exposition::Type type) {
    switch (type) {
        case Exposition::Type::counter:
            return "counter";
        case Exposition::Type::gauge:
            return "gauge";
        case Exposition::Type::histogram:
            break;
    }
    return "histogram";
}

// Labels of volumes come from disks and may hold anything.
std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\' || c == '"') out += '\\';
        if (c == '\n') {
            out += "\\n";
        } else {
            out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
        }
    }
    return out;
}

}  // namespace

void Exposition::family(std::string_view name, Type type, std::string_view help) {
    name_ = name;
    type_ = type;
    const bool total = type == Type::counter && format_ == MetricsFormat::text;
    const char* const suffix = total ? "_total" : "";
    out_ += fmt::format("# HELP {}{} {}\n# TYPE {}{} {}\n", name, suffix, help, name, suffix,
                        word(type));
}

void Exposition::line(std::string_view suffix, const Labels& labels, std::string_view value) {
    out_ += name_;
    out_ += suffix;
    char before = '{';
    for (const auto& [name, text] : labels) {
        out_ += fmt::format("{}{}=\"{}\"", before, name, escaped(text));
        before = ',';
    }
    out_ += fmt::format("{} {}\n", labels.empty() ? "" : "}", value);
}

void Exposition::sample(const Labels& labels, double value) {
    line(type_ == Type::counter ? "_total" : "", labels, fmt::format("{}", value));
}

void Exposition::sample(const Labels& labels, std::uint64_t value) {
    line(type_ == Type::counter ? "_total" : "", labels, fmt::format("{}", value));
}

void Exposition::histogram(const Labels& labels, const LatencyHistogram& latencies) {
    const auto seconds = [](Duration d) { return std::chrono::duration<double>(d).count(); };
    std::uint64_t below = 0;
    Labels with_limit = labels;
    with_limit.emplace_back("le", "");
    for (unsigned i = 0; i + 1 < LatencyHistogram::kBuckets; ++i) {
        below += latencies.in_bucket(i);
        with_limit.back().second = fmt::format("{}", seconds(LatencyHistogram::limit(i)));
        line("_bucket", with_limit, std::to_string(below));
    }
    with_limit.back().second = "+Inf";
    line("_bucket", with_limit, std::to_string(latencies.count()));
    line("_sum", labels, fmt::format("{}", seconds(latencies.sum())));
    line("_count", labels, std::to_string(latencies.count()));
}

std::string Exposition::finish() {
    if (format_ == MetricsFormat::openmetrics) out_ += "# EOF\n";
    return std::move(out_);
}

}  // namespace uc::admin
