// Private to the attribute table: what its parts (attributes_*.cc) are written with.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <utility>

#include "admin/attributes.h"

namespace uc::admin::table {

using Format = Attribute::Format;
using Scope = Attribute::Scope;
using Target = AttributeTarget;
using Value = AttributeValue;

inline constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();

inline Value number(std::uint64_t n) {
    return {n, {}};
}
inline Value text(std::string t) {
    return {0, std::move(t)};
}
inline std::uint32_t narrow(std::uint64_t n) {
    return static_cast<std::uint32_t>(n);
}

using Get = Value (*)(const Target&);
using Assign = void (*)(const Target&, std::uint64_t);
using Store = Task<Result<void>> (*)(Target, Value);

// What can only be read.
constexpr Attribute fact(std::string_view name, Scope scope, Format format, std::string_view unit,
                         std::string_view meaning, Get get) {
    Attribute out;
    out.name = name;
    out.scope = scope;
    out.format = format;
    out.unit = unit;
    out.meaning = meaning;
    out.get = get;
    return out;
}

struct Range {
    std::uint64_t min = 0;
    std::uint64_t max = 0;
};

// A number that lasts until the daemon ends, and that a settings file can hold.
constexpr Attribute setting(Attribute described, Range range, std::string_view preset,
                            Assign assign) {
    described.min = range.min;
    described.max = range.max;
    described.preset = preset;
    described.assign = assign;
    return described;
}

constexpr Attribute command(std::string_view name, Scope scope, std::string_view meaning,
                            Store store) {
    Attribute out;
    out.name = name;
    out.scope = scope;
    out.format = Format::command;
    out.meaning = meaning;
    out.store = store;
    return out;
}

constexpr Attribute backed(Attribute attribute) {
    attribute.kind = Attribute::Kind::backed;
    return attribute;
}

// The parts.
std::span<const Attribute> of_set();
std::span<const Attribute> of_cache();
std::span<const Attribute> of_volumes();
// `stats_*/...` of sets and volumes.
std::span<const Attribute> of_accounts();

}  // namespace uc::admin::table
