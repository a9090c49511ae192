// Every knob and fact of a running set under its sysfs name (format section 8.3 to 8.6): one table
// for the status, for `ubcache set`, and for a sysfs-shaped tree.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "admin/outcome.h"
#include "async/task.h"
#include "base/result.h"
#include "core/cache_set.h"

namespace uc::admin {

// What an attribute belongs to. `volume` is null for the scopes set and cache.
struct AttributeTarget {
    core::CacheSet* set = nullptr;
    core::SetVolume* volume = nullptr;
};

struct AttributeValue {
    std::uint64_t number = 0;  // all formats but text; for a choice its index
    std::string text;          // Format::text
};

struct Attribute {
    enum class Scope : std::uint8_t { set, cache, volume };
    enum class Format : std::uint8_t {
        decimal,
        human,  // bytes in the kernel's "h" format
        // Sectors per second if written as a plain number, bytes per second with a suffix.
        rate,        // shown as bytes in "h"
        plain_rate,  // shown as sectors
        choice,      // words, the current one in brackets
        text,
    };

    std::string_view name;  // may contain one '/', as below a directory of the tree
    Scope scope;
    Format format;
    AttributeValue (*get)(const AttributeTarget& target);
    // One of these, or none: read-only. assign() takes effect at once; store() is durable.
    void (*assign)(const AttributeTarget& target, std::uint64_t number) = nullptr;
    Task<Result<void>> (*store)(AttributeTarget target, AttributeValue value) = nullptr;
    // Numbers outside are refused. (The kernel clamps them in silence, and what somebody asked for
    // is then not what he has.)
    std::uint64_t min = 0;
    std::uint64_t max = 0;
    std::span<const std::string_view> choices{};

    bool writable() const { return assign != nullptr || store != nullptr; }
};

std::span<const Attribute> attributes();
// Null if there is none of that name.
const Attribute* find_attribute(std::string_view name);
// "cache_mod: no attribute that can be set; did you mean cache_mode?"
std::string no_attribute(std::string_view name);

// As in sysfs, without the newline.
std::string format_value(const Attribute& attribute, const AttributeValue& value);
std::string read_attribute(const Attribute& attribute, const AttributeTarget& target);
// "4M" and "4194304" alike. The error says what was expected, without the attribute's name.
Outcome<AttributeValue> parse_value(const Attribute& attribute, std::string_view text);
// Errc::read_only: it cannot be written.
Task<Result<void>> write_attribute(const Attribute& attribute, AttributeTarget target,
                                   AttributeValue value);

// Hits per cent of all cacheable reads and writes; 0 if there were none.
std::uint64_t hit_ratio_percent(const core::VolumeStats& stats);

}  // namespace uc::admin
