// Attributes of volumes: cached backing devices and flash-only volumes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "admin/attribute_table.h"
#include "admin/size_text.h"

namespace uc::admin::table {

namespace {

constexpr std::uint64_t kMaxSeconds = 3600 * 24 * 365;
// Above it nothing becomes dirty, so no more could be aimed at.
constexpr std::uint64_t kMaxPercent = core::SetOptions{}.cutoff_writeback;

constexpr std::array<std::string_view, 4> kModes{"writethrough", "writeback", "writearound",
                                                 "none"};
constexpr std::array<std::string_view, 2> kReadAhead{"all", "meta-only"};

core::VolumeOptions& options(const Target& t) {
    return t.volume->options();
}

Task<Result<void>> store_cache_mode(Target t, Value value) {
    const auto mode = static_cast<ondisk::CacheMode>(value.number);
    co_return co_await t.volume->set_cache_mode(mode);
}
Task<Result<void>> store_label(Target t, Value value) {
    CO_OK(co_await t.volume->set_label(value.text));
    t.host->label_changed();
    co_return Result<void>();
}
Task<Result<void>> store_read_ahead(Target, Value value) {
    if (value.number == 0) co_return Result<void>();
    co_return fail(Errc::unsupported, "no front end tells reads of metadata from others");
}
Task<Result<void>> attach(Target t, Value value) {
    std::string digits = value.text;
    std::erase_if(digits, [](char c) { return c == '-' || c == ':' || c == ' ' || c == '\n'; });
    if (digits.size() != 32) co_return fail(Errc::invalid, "not a uuid");
    for (const std::size_t at : {8u, 13u, 18u, 23u}) digits.insert(at, 1, '-');
    const std::optional<ondisk::Uuid> uuid = ondisk::Uuid::parse(digits);
    if (!uuid) co_return fail(Errc::invalid, "not a uuid");
    co_return co_await t.host->attach(t.volume, *uuid);
}
Task<Result<void>> detach(Target t, Value) {
    co_return t.host->begin_detach(t.volume);
}
Task<Result<void>> clear_stats(Target t, Value) {
    t.host->clear_stats(t.volume);
    co_return Result<void>();
}

std::string signed_size(std::int64_t sectors) {
    return human_signed(sectors * static_cast<std::int64_t>(kSectorBytes));
}

Value rate_debug(const Target& t) {
    const core::RateRound& round = t.volume->stats().rate_round;
    return text(fmt::format(
        "rate:\t\t{}/sec\ndirty:\t\t{}\ntarget:\t\t{}\nproportional:\t{}\nintegral:\t{}\n"
        "change:\t\t{}/sec\nnext io:\t{}ms",
        human(options(t).writeback_rate_sectors * kSectorBytes),
        human(t.volume->dirty_sectors() * kSectorBytes), signed_size(round.target),
        signed_size(round.proportional), signed_size(round.integral), signed_size(round.change),
        round.next_io_ms));
}

// The three stay ascending, as in the kernel.
void set_fragment_terms(core::VolumeOptions& o, std::uint32_t low, std::uint32_t mid,
                        std::uint32_t high) {
    o.writeback_rate_fp_term_low = low;
    o.writeback_rate_fp_term_mid = mid;
    o.writeback_rate_fp_term_high = high;
}

constexpr Attribute knob(std::string_view name, std::string_view unit, std::string_view meaning,
                         Range range, std::string_view preset, Get get, Assign assign,
                         Format format = Format::decimal) {
    return backed(
        setting(fact(name, Scope::volume, format, unit, meaning, get), range, preset, assign));
}

constexpr Attribute stored(Attribute described, Store store,
                           std::span<const std::string_view> choices) {
    described.store = store;
    described.choices = choices;
    return described;
}

const Attribute kVolumes[] = {
    backed(stored(fact("cache_mode", Scope::volume, Format::choice, "",
                       "where writes go; stored on the backing device",
                       [](const Target& t) {
                           return number(static_cast<std::uint64_t>(t.volume->cache_mode()));
                       }),
                  store_cache_mode, kModes)),
    stored(fact("label", Scope::volume, Format::text, "",
                "name of the volume from the next start on; stored on the devices",
                [](const Target& t) { return text(t.volume->label()); }),
           store_label, {}),
    backed(fact("state", Scope::volume, Format::text, "",
                "no cache, clean, dirty, or inconsistent (ran without its cache)",
                [](const Target& t) { return text(ondisk::name_of(t.volume->state())); })),
    backed(stored(fact("running", Scope::volume, Format::decimal, "", "1: the volume is served",
                       [](const Target&) { return number(1); }),
                  [](Target, Value value) -> Task<Result<void>> {
                      if (value.number == 1) co_return Result<void>();
                      co_return fail(Errc::invalid, "a volume cannot be stopped alone");
                  },
                  {})),
    backed(fact("dirty_data", Scope::volume, Format::human, "bytes", "data that only the cache has",
                [](const Target& t) { return number(t.volume->dirty_sectors() * kSectorBytes); })),
    backed(fact("backing_dev_name", Scope::volume, Format::text, "", "path of the backing device",
                [](const Target& t) { return text(t.volume->backing_name()); })),
    backed(fact("backing_dev_uuid", Scope::volume, Format::text, "", "uuid of the backing device",
                [](const Target& t) { return text(t.volume->uuid().to_string()); })),
    [] {
        Attribute out =
            fact("size", Scope::volume, Format::human, "bytes", "size of a flash-only volume",
                 [](const Target& t) { return number(t.volume->size_sectors() * kSectorBytes); });
        out.kind = Attribute::Kind::flash_only;
        return out;
    }(),
    knob(
        "sequential_cutoff", "bytes", "runs of at least this length bypass the cache; 0 = none",
        {0, kMax32}, "4M",
        [](const Target& t) { return number(options(t).sequential_cutoff_bytes); },
        [](const Target& t, std::uint64_t n) { options(t).sequential_cutoff_bytes = n; },
        Format::human),
    backed(stored(
        fact("readahead_cache_policy", Scope::volume, Format::choice, "",
             "which read-ahead is cached: all of it", [](const Target&) { return number(0); }),
        store_read_ahead, kReadAhead)),
    knob(
        "writeback_running", "", "0: nothing is written back", {0, 1}, "1",
        [](const Target& t) { return number(options(t).writeback_running ? 1 : 0); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_running = n != 0; }),
    knob(
        "writeback_metadata", "", "no effect, as in the kernel", {0, 1}, "1",
        [](const Target& t) { return number(options(t).writeback_metadata ? 1 : 0); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_metadata = n != 0; }),
    knob(
        "writeback_delay", "seconds", "pause between rounds of write-back", {0, kMaxSeconds}, "30",
        [](const Target& t) { return number(options(t).writeback_delay_s); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_delay_s = narrow(n); }),
    knob(
        "writeback_percent", "percent", "of the cache that may stay dirty; 0 = no brake",
        {0, kMaxPercent}, "10",
        [](const Target& t) { return number(options(t).writeback_percent); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_percent = narrow(n); }),
    // Of no lasting use as a setting: the controller changes it every few seconds.
    knob(
        "writeback_rate", "sectors/s", "speed of write-back, until the controller's next round",
        {1, kMax32}, "", [](const Target& t) { return number(options(t).writeback_rate_sectors); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_rate_sectors = n; },
        Format::rate),
    knob(
        "writeback_rate_minimum", "sectors/s", "write-back is never slower", {1, kMax32}, "8",
        [](const Target& t) { return number(options(t).writeback_rate_minimum_sectors); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_rate_minimum_sectors = n; },
        Format::plain_rate),
    knob(
        "writeback_rate_update_seconds", "seconds", "between rounds of the controller", {1, 60},
        "5", [](const Target& t) { return number(options(t).writeback_rate_update_s); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_rate_update_s = narrow(n); }),
    knob(
        "writeback_rate_p_term_inverse", "", "controller: weight of the excess, as 1/n",
        {1, kMax32}, "40",
        [](const Target& t) { return number(options(t).writeback_rate_p_term_inverse); },
        [](const Target& t, std::uint64_t n) {
            options(t).writeback_rate_p_term_inverse = narrow(n);
        }),
    knob(
        "writeback_rate_i_term_inverse", "", "controller: weight of the past excess, as 1/n",
        {1, kMax32}, "10000",
        [](const Target& t) { return number(options(t).writeback_rate_i_term_inverse); },
        [](const Target& t, std::uint64_t n) {
            options(t).writeback_rate_i_term_inverse = narrow(n);
        }),
    knob(
        "writeback_consider_fragment", "", "1: faster if many buckets are dirty in small part",
        {0, 1}, "1",
        [](const Target& t) { return number(options(t).writeback_consider_fragment ? 1 : 0); },
        [](const Target& t, std::uint64_t n) { options(t).writeback_consider_fragment = n != 0; }),
    knob(
        "writeback_rate_fp_term_low", "", "controller: weight of that above 50 % in use",
        {1, kMax32}, "1",
        [](const Target& t) { return number(options(t).writeback_rate_fp_term_low); },
        [](const Target& t, std::uint64_t n) {
            core::VolumeOptions& o = options(t);
            set_fragment_terms(o, std::min(narrow(n), o.writeback_rate_fp_term_mid),
                               o.writeback_rate_fp_term_mid, o.writeback_rate_fp_term_high);
        }),
    knob(
        "writeback_rate_fp_term_mid", "", "controller: weight of that above 57 % in use",
        {1, kMax32}, "10",
        [](const Target& t) { return number(options(t).writeback_rate_fp_term_mid); },
        [](const Target& t, std::uint64_t n) {
            core::VolumeOptions& o = options(t);
            const std::uint32_t low = o.writeback_rate_fp_term_low;
            const std::uint32_t high = o.writeback_rate_fp_term_high;
            set_fragment_terms(o, low, std::clamp(narrow(n), low, high), high);
        }),
    knob(
        "writeback_rate_fp_term_high", "", "controller: weight of that above 64 % in use",
        {1, kMax32}, "1000",
        [](const Target& t) { return number(options(t).writeback_rate_fp_term_high); },
        [](const Target& t, std::uint64_t n) {
            core::VolumeOptions& o = options(t);
            set_fragment_terms(o, o.writeback_rate_fp_term_low, o.writeback_rate_fp_term_mid,
                               std::max(narrow(n), o.writeback_rate_fp_term_mid));
        }),
    backed(fact("writeback_rate_debug", Scope::volume, Format::text, "",
                "the controller's last round", rate_debug)),
    fact("io_errors", Scope::volume, Format::decimal, "", "requests that failed, or would have",
         [](const Target& t) { return number(t.volume->stats().io_errors); }),
    // No stripes are known, which the kernel shows as this size.
    backed(fact("stripe_size", Scope::volume, Format::human, "bytes",
                "of the backing device; 1.0T = unknown",
                [](const Target&) { return number(std::uint64_t{1} << 40); })),
    backed(fact("partial_stripes_expensive", Scope::volume, Format::decimal, "",
                "1: parts of stripes are slow to write; not known here",
                [](const Target&) { return number(0); })),
    backed(
        command("attach", Scope::volume, "a set's uuid: joins it, after running without", attach)),
    backed(command("detach", Scope::volume, "begins to write back, then leaves the set", detach)),
    command("clear_stats", Scope::volume, "begins stats_total anew", clear_stats),
};

}  // namespace

std::span<const Attribute> of_volumes() {
    return kVolumes;
}

}  // namespace uc::admin::table
