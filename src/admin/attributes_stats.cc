// The directories `stats_*` of sets and volumes: every counter in every window.
#include <array>
#include <string>
#include <vector>

#include "admin/attribute_table.h"

namespace uc::admin::table {

namespace {

struct CounterWords {
    std::string_view name;
    std::string_view unit;
    std::string_view meaning;
};

constexpr std::array<std::string_view, kWindows> kDirectories{"stats_total", "stats_five_minute",
                                                              "stats_hour", "stats_day"};
constexpr std::array<CounterWords, kCounters> kWords{{
    {"bypassed", "bytes", "went past the cache"},
    {"cache_hits", "", "requests that the cache had"},
    {"cache_misses", "", "requests that it had not, or not all of"},
    {"cache_bypass_hits", "", "hits of requests that were to go past the cache"},
    {"cache_bypass_misses", "", "misses of those"},
    {"cache_miss_collisions", "", "fills that lost against a write"},
    {"cache_hit_ratio", "percent", "hits of hits and misses"},
}};

template <Window window, Counter counter>
Value value(const Target& t) {
    const std::uint64_t n = t.host->account(t.volume).value(window, counter);
    return number(counter == Counter::bypassed ? n * kSectorBytes : n);
}

template <std::size_t i>
Attribute row(Scope scope) {
    constexpr std::size_t window = i / kCounters, counter = i % kCounters;
    static const std::string name =
        std::string(kDirectories[window]) + "/" + std::string(kWords[counter].name);
    const Format format = counter == 0 ? Format::human : Format::decimal;
    return fact(name, scope, format, kWords[counter].unit, kWords[counter].meaning,
                value<static_cast<Window>(window), static_cast<Counter>(counter)>);
}

template <std::size_t... i>
std::vector<Attribute> rows(std::index_sequence<i...>) {
    std::vector<Attribute> out;
    for (const Scope scope : {Scope::set, Scope::volume}) (out.push_back(row<i>(scope)), ...);
    return out;
}

}  // namespace

std::span<const Attribute> of_accounts() {
    static const std::vector<Attribute> all =
        rows(std::make_index_sequence<kWindows * kCounters>());
    return all;
}

}  // namespace uc::admin::table
