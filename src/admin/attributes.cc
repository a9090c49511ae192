#include "admin/attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "admin/label_text.h"
#include "admin/size_text.h"
#include "admin/suggestion.h"

namespace uc::admin {

namespace {

using Format = Attribute::Format;
using Scope = Attribute::Scope;
using Target = AttributeTarget;
using Value = AttributeValue;

constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMaxSeconds = 3600 * 24 * 365;
// Above it nothing becomes dirty, so no more could be aimed at.
constexpr std::uint64_t kMaxPercent = core::SetOptions{}.cutoff_writeback;

constexpr std::array<std::string_view, 4> kModes{"writethrough", "writeback", "writearound",
                                                 "none"};
constexpr std::array<std::string_view, 3> kPolicies{"lru", "fifo", "random"};

Value number(std::uint64_t n) {
    return {n, {}};
}
Value text(std::string t) {
    return {0, std::move(t)};
}

std::uint32_t narrow(std::uint64_t n) {
    return static_cast<std::uint32_t>(n);
}

core::VolumeOptions& options(const Target& t) {
    return t.volume->options();
}
const core::VolumeStats& stats(const Target& t) {
    return t.volume->stats();
}

Task<Result<void>> store_cache_mode(Target t, Value value) {
    const auto mode = static_cast<ondisk::CacheMode>(value.number);
    co_return co_await t.volume->set_cache_mode(mode);
}

Task<Result<void>> store_label(Target t, Value value) {
    co_return co_await t.volume->set_label(value.text);
}

Task<Result<void>> store_replacement(Target t, Value value) {
    const auto policy = static_cast<ondisk::Replacement>(value.number);
    co_return co_await t.set->set_replacement(policy);
}

// Read-only number.
constexpr Attribute fact(std::string_view name, Scope scope, Format format,
                         Value (*get)(const Target&)) {
    return Attribute{name, scope, format, get, nullptr, nullptr, 0, 0, {}};
}

constexpr Attribute knob(std::string_view name, Scope scope, Format format,
                         Value (*get)(const Target&), void (*assign)(const Target&, std::uint64_t),
                         std::uint64_t min, std::uint64_t max) {
    return Attribute{name, scope, format, get, assign, nullptr, min, max, {}};
}

constexpr auto kTable = std::to_array<Attribute>({
    // The set.
    fact("block_size", Scope::set, Format::human,
         [](const Target& t) { return number(t.set->superblock().block_size * kSectorBytes); }),
    fact("bucket_size", Scope::set, Format::human,
         [](const Target& t) {
             return number(t.set->superblock().bucket_sectors() * kSectorBytes);
         }),
    fact("btree_cache_size", Scope::set, Format::human,
         [](const Target& t) { return number(t.set->btree_cache_bytes()); }),
    fact("cache_available_percent", Scope::set, Format::decimal,
         [](const Target& t) { return number(100 - std::min(100u, t.set->in_use_percent())); }),
    fact("root_usage_percent", Scope::set, Format::decimal,
         [](const Target& t) { return number(t.set->root_usage_percent()); }),
    fact("tree_depth", Scope::set, Format::decimal,
         [](const Target& t) { return number(t.set->tree_depth()); }),
    fact("synchronous", Scope::set, Format::decimal,
         [](const Target& t) { return number(t.set->superblock().sync() ? 1 : 0); }),
    knob(
        "congested_read_threshold_us", Scope::set, Format::decimal,
        [](const Target& t) { return number(t.set->options().congested_read_threshold_us); },
        [](const Target& t, std::uint64_t n) {
            t.set->options().congested_read_threshold_us = narrow(n);
        },
        0, kMax32),
    knob(
        "congested_write_threshold_us", Scope::set, Format::decimal,
        [](const Target& t) { return number(t.set->options().congested_write_threshold_us); },
        [](const Target& t, std::uint64_t n) {
            t.set->options().congested_write_threshold_us = narrow(n);
        },
        0, kMax32),
    knob(
        "journal_delay_ms", Scope::set, Format::decimal,
        [](const Target& t) { return number(t.set->options().journal_delay_ms); },
        [](const Target& t, std::uint64_t n) { t.set->options().journal_delay_ms = narrow(n); }, 0,
        65535),
    knob(
        "io_error_limit", Scope::set, Format::decimal,
        [](const Target& t) { return number(t.set->options().io_error_limit); },
        [](const Target& t, std::uint64_t n) { t.set->options().io_error_limit = narrow(n); }, 0,
        kMax32),
    knob(
        "cache_grace", Scope::set, Format::decimal,
        [](const Target& t) { return number(t.set->options().cache_grace_s); },
        [](const Target& t, std::uint64_t n) { t.set->options().cache_grace_s = narrow(n); }, 0,
        86400),

    // The cache device.
    fact("nbuckets", Scope::cache, Format::decimal,
         [](const Target& t) { return number(t.set->superblock().nbuckets_or_offset); }),
    fact("discard", Scope::cache, Format::decimal,
         [](const Target& t) { return number(t.set->superblock().discard() ? 1 : 0); }),
    fact("io_errors", Scope::cache, Format::decimal,
         [](const Target& t) { return number(t.set->stats().cache_io_errors); }),
    fact("written", Scope::cache, Format::human,
         [](const Target& t) { return number(t.set->stats().written_sectors * kSectorBytes); }),
    fact("btree_written", Scope::cache, Format::human,
         [](const Target& t) {
             return number(t.set->stats().btree_written_sectors * kSectorBytes);
         }),
    fact("metadata_written", Scope::cache, Format::human,
         [](const Target& t) {
             return number(t.set->stats().metadata_written_sectors * kSectorBytes);
         }),
    Attribute{
        "cache_replacement_policy", Scope::cache, Format::choice,
        [](const Target&
               t) { return number(static_cast<std::uint64_t>(t.set->superblock().replacement())); },
        nullptr, store_replacement, 0, 0, kPolicies},

    // Volumes.
    Attribute{
        "cache_mode", Scope::volume, Format::choice,
        [](const Target& t) { return number(static_cast<std::uint64_t>(t.volume->cache_mode())); },
        nullptr, store_cache_mode, 0, 0, kModes},
    Attribute{"label",
              Scope::volume,
              Format::text,
              [](const Target& t) { return text(t.volume->label()); },
              nullptr,
              store_label,
              0,
              0,
              {}},
    fact("state", Scope::volume, Format::text,
         [](const Target& t) { return text(ondisk::name_of(t.volume->state())); }),
    fact("dirty_data", Scope::volume, Format::human,
         [](const Target& t) { return number(t.volume->dirty_sectors() * kSectorBytes); }),
    fact("backing_dev_name", Scope::volume, Format::text,
         [](const Target& t) { return text(t.volume->backing_name()); }),
    fact("backing_dev_uuid", Scope::volume, Format::text,
         [](const Target& t) { return text(t.volume->uuid().to_string()); }),
    knob(
        "sequential_cutoff", Scope::volume, Format::human,
        [](const Target& t) { return number(options(t).sequential_cutoff_bytes); },
        [](const Target& t, std::uint64_t n) { options(t).sequential_cutoff_bytes = n; }, 0,
        kMax32),
    knob(
        "writeback_running", Scope::volume, Format::decimal,
        [](const Target& t) { return number(options(t).writeback_running ? 1 : 0); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_running = n != 0; }, 0, 1),
    knob(
        "writeback_delay", Scope::volume, Format::decimal,
        [](const Target& t) { return number(options(t).writeback_delay_s); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_delay_s = narrow(n); }, 0,
        kMaxSeconds),
    knob(
        "writeback_percent", Scope::volume, Format::decimal,
        [](const Target& t) { return number(options(t).writeback_percent); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_percent = narrow(n); }, 0,
        kMaxPercent),
    knob(
        "writeback_rate", Scope::volume, Format::rate,
        [](const Target& t) { return number(options(t).writeback_rate_sectors); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_rate_sectors = n; }, 1, kMax32),
    knob(
        "writeback_rate_minimum", Scope::volume, Format::plain_rate,
        [](const Target& t) { return number(options(t).writeback_rate_minimum_sectors); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_rate_minimum_sectors = n; }, 1,
        kMax32),
    knob(
        "writeback_rate_update_seconds", Scope::volume, Format::decimal,
        [](const Target& t) { return number(options(t).writeback_rate_update_s); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_rate_update_s = narrow(n); }, 1,
        60),
    knob(
        "writeback_rate_p_term_inverse", Scope::volume, Format::decimal,
        [](const Target& t) { return number(options(t).writeback_rate_p_term_inverse); },
        [](const Target& t, std::uint64_t n) {
            options(t).writeback_rate_p_term_inverse = narrow(n);
        },
        1, kMax32),
    knob(
        "writeback_rate_i_term_inverse", Scope::volume, Format::decimal,
        [](const Target& t) { return number(options(t).writeback_rate_i_term_inverse); },
        [](const Target& t, std::uint64_t n) {
            options(t).writeback_rate_i_term_inverse = narrow(n);
        },
        1, kMax32),
    fact("io_errors", Scope::volume, Format::decimal,
         [](const Target& t) { return number(stats(t).io_errors); }),
    fact("stats_total/bypassed", Scope::volume, Format::human,
         [](const Target& t) { return number(stats(t).bypassed_sectors * kSectorBytes); }),
    fact("stats_total/cache_hits", Scope::volume, Format::decimal,
         [](const Target& t) { return number(stats(t).cache_hits); }),
    fact("stats_total/cache_misses", Scope::volume, Format::decimal,
         [](const Target& t) { return number(stats(t).cache_misses); }),
    fact("stats_total/cache_bypass_hits", Scope::volume, Format::decimal,
         [](const Target& t) { return number(stats(t).cache_bypass_hits); }),
    fact("stats_total/cache_bypass_misses", Scope::volume, Format::decimal,
         [](const Target& t) { return number(stats(t).cache_bypass_misses); }),
    fact("stats_total/cache_miss_collisions", Scope::volume, Format::decimal,
         [](const Target& t) { return number(stats(t).cache_miss_collisions); }),
    fact("stats_total/cache_hit_ratio", Scope::volume, Format::decimal,
         [](const Target& t) { return number(hit_ratio_percent(stats(t))); }),
});

bool is_rate(const Attribute& attribute) {
    return attribute.format == Format::rate || attribute.format == Format::plain_rate;
}

Outcome<Value> parse_number(const Attribute& attribute, std::string_view words) {
    const std::optional<std::uint64_t> parsed = parse_size(words);
    if (!parsed) {
        return tl::unexpected(
            fmt::format("{} is no number; write one like 10 or 4M", std::string(words)));
    }
    std::uint64_t n = *parsed;
    const bool suffix = words.find_first_not_of("0123456789 \n") != std::string_view::npos;
    if (is_rate(attribute) && suffix) n /= kSectorBytes;
    if (n >= attribute.min && n <= attribute.max) return number(n);
    const char* unit = "";
    if (attribute.format == Format::human) unit = " bytes";
    if (is_rate(attribute)) unit = " sectors per second";
    return tl::unexpected(fmt::format("{} is out of range {}..{}{}", std::string(words),
                                      attribute.min, attribute.max, unit));
}

Outcome<Value> parse_choice(const Attribute& attribute, std::string_view word) {
    std::string all;
    for (std::size_t i = 0; i < attribute.choices.size(); ++i) {
        if (attribute.choices[i] == word) return number(i);
        if (i != 0) all += i + 1 == attribute.choices.size() ? " or " : ", ";
        all += attribute.choices[i];
    }
    return tl::unexpected("use " + all);
}

}  // namespace

std::span<const Attribute> attributes() {
    return kTable;
}

const Attribute* find_attribute(std::string_view name) {
    for (const Attribute& attribute : kTable) {
        if (attribute.name == name) return &attribute;
    }
    return nullptr;
}

std::string no_attribute(std::string_view name) {
    std::vector<std::string> settable;
    for (const Attribute& attribute : kTable) {
        if (attribute.writable()) settable.emplace_back(attribute.name);
    }
    return fmt::format("{}: no attribute that can be set{}", name,
                       did_you_mean(near_words(name, settable)));
}

std::string format_value(const Attribute& attribute, const AttributeValue& value) {
    switch (attribute.format) {
        case Format::decimal:
        case Format::plain_rate:
            return fmt::format("{}", value.number);
        case Format::human:
            return human(value.number);
        case Format::rate:
            return human(value.number * kSectorBytes);
        case Format::text:
            return value.text;
        case Format::choice:
            break;
    }
    std::string line;
    for (std::size_t i = 0; i < attribute.choices.size(); ++i) {
        if (i != 0) line += ' ';
        const std::string_view word = attribute.choices[i];
        line += i == value.number ? fmt::format("[{}]", word) : std::string(word);
    }
    return line;
}

std::string read_attribute(const Attribute& attribute, const AttributeTarget& target) {
    return format_value(attribute, attribute.get(target));
}

Outcome<AttributeValue> parse_value(const Attribute& attribute, std::string_view words) {
    if (!words.empty() && words.back() == '\n') words.remove_suffix(1);
    switch (attribute.format) {
        case Format::choice:
            return parse_choice(attribute, words);
        case Format::text: {
            TRY_OK(check_label(words));  // the one text that can be set
            return text(std::string(words));
        }
        default:
            return parse_number(attribute, words);
    }
}

Task<Result<void>> write_attribute(const Attribute& attribute, AttributeTarget target,
                                   AttributeValue value) {
    if (!attribute.writable()) co_return fail(Errc::read_only, "can only be read");
    if (attribute.store != nullptr) co_return co_await attribute.store(target, std::move(value));
    attribute.assign(target, value.number);
    if (target.volume != nullptr) target.volume->options_changed();
    co_return Result<void>();
}

std::uint64_t hit_ratio_percent(const core::VolumeStats& stats) {
    const std::uint64_t all = stats.cache_hits + stats.cache_misses;
    return all == 0 ? 0 : stats.cache_hits * 100 / all;
}

}  // namespace uc::admin
