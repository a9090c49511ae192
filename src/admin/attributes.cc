#include "admin/attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "admin/attribute_table.h"
#include "admin/label_text.h"
#include "admin/size_text.h"
#include "admin/suggestion.h"

namespace uc::admin {

namespace {

using Format = Attribute::Format;
using Value = AttributeValue;

bool is_rate(const Attribute& attribute) {
    return attribute.format == Format::rate || attribute.format == Format::plain_rate;
}

Outcome<Value> parse_number(const Attribute& attribute, std::string_view words, OutOfRange policy) {
    const std::optional<std::uint64_t> parsed = parse_size(words);
    if (!parsed) {
        return tl::unexpected(
            fmt::format("{} is no number; write one like 10 or 4M", std::string(words)));
    }
    std::uint64_t n = *parsed;
    const bool suffix = words.find_first_not_of("0123456789 \n") != std::string_view::npos;
    if (is_rate(attribute) && suffix) n /= kSectorBytes;
    if (attribute.max == 0) return Value{n, {}};  // an action, which knows by itself
    if (policy == OutOfRange::clamp) n = std::clamp(n, attribute.min, attribute.max);
    if (n >= attribute.min && n <= attribute.max) return Value{n, {}};
    const char* unit = "";
    if (attribute.format == Format::human) unit = " bytes";
    if (is_rate(attribute)) unit = " sectors per second";
    return tl::unexpected(fmt::format("{} is out of range {}..{}{}", std::string(words),
                                      attribute.min, attribute.max, unit));
}

Outcome<Value> parse_choice(const Attribute& attribute, std::string_view word) {
    std::string all;
    for (std::size_t i = 0; i < attribute.choices.size(); ++i) {
        if (attribute.choices[i] == word) return Value{i, {}};
        if (i != 0) all += i + 1 == attribute.choices.size() ? " or " : ", ";
        all += attribute.choices[i];
    }
    return tl::unexpected("use " + all);
}

}  // namespace

bool Attribute::applies_to(const core::SetVolume* volume) const {
    if (kind == Kind::any || volume == nullptr) return true;
    return volume->flash_only() == (kind == Kind::flash_only);
}

std::span<const Attribute> attributes() {
    static const std::vector<Attribute> all = [] {
        std::vector<Attribute> out;
        for (const auto part :
             {table::of_set(), table::of_cache(), table::of_volumes(), table::of_accounts()}) {
            out.insert(out.end(), part.begin(), part.end());
        }
        return out;
    }();
    return all;
}

const Attribute* find_attribute(std::string_view name, Attribute::Scope scope) {
    for (const Attribute& attribute : attributes()) {
        if (attribute.name == name && attribute.scope == scope) return &attribute;
    }
    return nullptr;
}

const Attribute* find_attribute(std::string_view name, bool of_volume) {
    const Attribute* found = nullptr;
    for (const Attribute& attribute : attributes()) {
        if (!same_name(attribute, name)) continue;
        const bool fits = !of_volume || attribute.scope == Attribute::Scope::volume;
        if (fits && attribute.writable()) return &attribute;
        if (found == nullptr || of_volume) found = &attribute;
    }
    return found;
}

bool same_name(const Attribute& attribute, std::string_view name) {
    constexpr std::string_view kInternal = "internal/";
    if (attribute.name == name) return true;
    return attribute.name.starts_with(kInternal) && attribute.name.substr(kInternal.size()) == name;
}

std::string unknown_attribute(std::string_view name) {
    std::vector<std::string> all;
    for (const Attribute& attribute : attributes()) all.emplace_back(attribute.name);
    return fmt::format("{}: no such attribute{}", name, did_you_mean(near_words(name, all)));
}

std::string no_attribute(std::string_view name) {
    std::vector<std::string> settable;
    for (const Attribute& attribute : attributes()) {
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
        case Format::command:
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

bool numeric(const Attribute& attribute) {
    switch (attribute.format) {
        case Format::decimal:
        case Format::human:
        case Format::rate:
        case Format::plain_rate:
            return true;
        case Format::choice:
        case Format::text:
        case Format::command:
            break;
    }
    return false;
}

std::string exact_text(const Attribute& attribute, const AttributeValue& value) {
    if (numeric(attribute)) return fmt::format("{}", value.number);
    if (attribute.format == Format::choice) return std::string(attribute.choices[value.number]);
    return value.text;
}

Outcome<AttributeValue> parse_value(const Attribute& attribute, std::string_view words,
                                    OutOfRange policy) {
    if (!words.empty() && words.back() == '\n') words.remove_suffix(1);
    switch (attribute.format) {
        case Format::choice:
            return parse_choice(attribute, words);
        case Format::command:
            return Value{0, std::string(words)};
        case Format::text: {
            TRY_OK(check_label(words));  // the one text that can be set
            return Value{0, std::string(words)};
        }
        default:
            return parse_number(attribute, words, policy);
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
