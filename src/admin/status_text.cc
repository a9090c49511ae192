// The status for people: sentences in the words of the documentation, the numbers that answer "is
// it working, is anything at risk, why is this not cached", and nothing else. All of it is in the
// JSON.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "admin/size_text.h"
#include "admin/status.h"

namespace uc::admin {

namespace {

using nlohmann::json;

struct ReasonWords {
    std::string_view name;
    std::string_view words;
};

constexpr std::array<ReasonWords, 10> kReasonWords{{
    {"cached", "went through the cache"},
    {"mode", "the cache mode does not cache it"},
    {"sequential", "part of a long sequential run (sequential_cutoff)"},
    {"congested", "the cache was slow (congested_*_threshold_us)"},
    {"unaligned", "not a multiple of the cache's block size"},
    {"full", "the cache is nearly full of dirty data"},
    {"detaching", "the volume is leaving the set"},
    {"discard", "a discard"},
    {"no_bucket", "no bucket was free at once"},
    {"no_set", "the volume runs without its cache"},
}};

std::uint64_t number(const json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string word(const json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool flag(const json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_boolean() && found->get<bool>();
}

const json& member(const json& object, const char* name) {
    static const json empty = json::object();
    const auto found = object.find(name);
    return found != object.end() && found->is_object() ? *found : empty;
}

std::string_view reason_words(std::string_view name) {
    for (const ReasonWords& reason : kReasonWords) {
        if (reason.name == name) return reason.words;
    }
    return name;
}

// Of devices that are not here: what the cache alone has.
std::string absent_text(const json& set) {
    std::string out;
    const auto absent = set.find("absent");
    if (absent == set.end() || !absent->is_array()) return out;
    for (const json& device : *absent) {
        if (number(device, "dirty_bytes") == 0) continue;
        const std::string label = word(device, "label");
        out += fmt::format(
            "  MISSING       backing device {}{}, with {} of dirty data that only the cache has\n",
            word(device, "uuid"), label.empty() ? "" : fmt::format(" ({})", label),
            pretty_size(number(device, "dirty_bytes")));
        out += "                bring it and name it with 'ubcache attach'\n";
    }
    return out;
}

std::string set_text(const json& set) {
    const json& buckets = member(set, "buckets");
    const std::uint64_t unused = number(buckets, "unused"), clean = number(buckets, "clean");
    const std::uint64_t dirty = number(buckets, "dirty"), meta = number(buckets, "metadata");
    const std::uint64_t all = unused + clean + dirty + meta;
    const auto percent = [all](std::uint64_t n) { return all == 0 ? 0 : n * 100 / all; };
    std::string out = fmt::format("cache set {}\n", word(set, "uuid"));
    out += fmt::format("  cache device  {}, {} buckets of {}\n", word(set, "cache"), all,
                       pretty_size(number(set, "bucket_bytes")));
    // The engine files what lives in the cache alone under dirty: neither may be dropped.
    const std::uint64_t promised = number(set, "flash_only_size_bytes");
    out += fmt::format("  buckets       {}% unused, {}% clean data, {}% {}, {}% metadata\n",
                       percent(unused), percent(clean), percent(dirty),
                       promised == 0 ? "dirty data" : "dirty data or of cache-only volumes",
                       percent(meta));
    if (promised > number(set, "data_capacity_bytes")) {
        out += fmt::format("  overcommitted cache-only volumes may grow to {}, {} can be held\n",
                           pretty_size(promised), pretty_size(number(set, "data_capacity_bytes")));
    }
    if (flag(set, "read_only")) {
        out +=
            "  read-only     nothing is written to any device; it was asked for with --read-only\n";
    }
    if (!word(set, "failure").empty()) {
        out += fmt::format("  FAILED        {}\n", word(set, "failure"));
    }
    out += absent_text(set);
    if (number(member(set, "stats"), "prio_tables_rebuilt") != 0) {
        out += "  repaired      the priority table was damaged and has been rebuilt\n";
    }
    if (number(member(set, "stats"), "cache_io_errors") != 0) {
        out += fmt::format("  I/O errors    {} on the cache device\n",
                           number(member(set, "stats"), "cache_io_errors"));
    }
    return out;
}

// One line per reason that occurred, for reads or for writes.
std::string reasons_text(const char* what, const json& reasons) {
    std::string out;
    for (const auto& [name, count] : reasons.items()) {
        if (!count.is_number_unsigned() || count.get<std::uint64_t>() == 0) continue;
        out += fmt::format("    {:>10} {:6} {:11} {}\n", count.get<std::uint64_t>(), what, name,
                           reason_words(name));
    }
    return out;
}

std::uint64_t bypassed_requests(const json& stats) {
    std::uint64_t count = 0;
    for (const char* kind : {"read_reasons", "write_reasons"}) {
        for (const auto& [name, requests] : member(stats, kind).items()) {
            if (name != "cached" && requests.is_number_unsigned()) {
                count += requests.get<std::uint64_t>();
            }
        }
    }
    return count;
}

std::string volume_text(const json& volume) {
    const json& stats = member(volume, "stats");
    const bool flash_only = flag(volume, "flash_only");
    std::string out = fmt::format("\n{}\n", word(volume, "name"));
    out += fmt::format("  size          {}, {}\n", pretty_size(number(volume, "size_bytes")),
                       flash_only ? std::string("lives on the cache device alone")
                                  : "on " + word(volume, "backing"));
    if (flash_only) {
        out += fmt::format("  data          {} in the cache, which is its only place\n",
                           pretty_size(number(volume, "dirty_bytes")));
    } else {
        out += fmt::format("  cache         mode {}, state {}\n", word(volume, "cache_mode"),
                           word(volume, "state"));
        out += fmt::format("  dirty data    {} in the cache only, not yet on the backing device\n",
                           pretty_size(number(volume, "dirty_bytes")));
    }
    if (!word(volume, "writeback_failure").empty()) {
        out += fmt::format("  WRITE-BACK    FAILS: {}\n", word(volume, "writeback_failure"));
        out +=
            "                mend that device; it is tried again every few seconds, and the "
            "data stays in the cache\n";
    }
    if (!word(volume, "nbd").empty())
        out += fmt::format("  NBD           {}\n", word(volume, "nbd"));
    if (!word(volume, "block_device").empty()) {
        out += fmt::format("  block device  {}\n", word(volume, "block_device"));
    }
    if (!word(volume, "file").empty()) {
        out += fmt::format("  file          {}\n", word(volume, "file"));
    }
    out += fmt::format("  hits          {} of {} requests ({}%)\n", number(stats, "cache_hits"),
                       number(stats, "cache_hits") + number(stats, "cache_misses"),
                       number(stats, "hit_ratio_percent"));
    out += fmt::format("  bypassed      {} in {} requests\n",
                       pretty_size(number(stats, "bypassed_bytes")), bypassed_requests(stats));
    if (number(stats, "io_errors") != 0) {
        out += fmt::format("  I/O errors    {}\n", number(stats, "io_errors"));
    }
    const std::string why = reasons_text("reads", member(stats, "read_reasons")) +
                            reasons_text("writes", member(stats, "write_reasons"));
    if (!why.empty()) out += "  each request and why it was or was not cached:\n" + why;
    return out;
}

}  // namespace

std::string status_text(const json& status) {
    std::string out = set_text(member(status, "set"));
    const auto volumes = status.find("volumes");
    if (volumes == status.end() || !volumes->is_array()) return out;
    for (const json& volume : *volumes) out += volume_text(volume);
    return out;
}

}  // namespace uc::admin
