#include "admin/get_requests.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "admin/attributes.h"

namespace uc::admin {

namespace {

using nlohmann::json;

bool wanted(const Attribute& attribute, const std::vector<std::string>& names) {
    if (names.empty()) return true;
    for (const std::string& name : names) {
        if (same_name(attribute, name)) return true;
    }
    return false;
}

json value_json(const Attribute& attribute, const AttributeTarget& target) {
    const AttributeValue value = attribute.get(target);
    json out{{"value", format_value(attribute, value)}};
    if (numeric(attribute)) out["number"] = value.number;
    if (!attribute.unit.empty()) out["unit"] = attribute.unit;
    if (!attribute.preset.empty()) out["setting"] = true;
    if (attribute.writable()) out["writable"] = true;
    out["meaning"] = attribute.meaning;
    return out;
}

json scope_json(Attribute::Scope scope, const AttributeTarget& target,
                const std::vector<std::string>& names) {
    json out = json::object();
    for (const Attribute& attribute : attributes()) {
        if (attribute.scope != scope || !attribute.readable() || !wanted(attribute, names) ||
            !attribute.applies_to(target.volume)) {
            continue;
        }
        out[std::string(attribute.name)] = value_json(attribute, target);
    }
    return out;
}

}  // namespace

Outcome<json> get_attributes(const ServedSet& served, const std::vector<std::string>& names,
                             const ServedVolume* volume) {
    for (const std::string& name : names) {
        const Attribute* attribute = find_attribute(name, volume != nullptr);
        if (attribute == nullptr) return tl::unexpected(unknown_attribute(name));
        if (!attribute->readable()) {
            return tl::unexpected(fmt::format("{}: is a command; it can only be set", name));
        }
    }
    json out = json::object();
    out["uuid"] = served.set()->superblock().set_uuid.to_string();
    if (volume == nullptr) {
        out["set"] = scope_json(Attribute::Scope::set, served.target(nullptr), names);
        out["cache"] = scope_json(Attribute::Scope::cache, served.target(nullptr), names);
    }
    json volumes = json::object();
    for (const ServedVolume& entry : served.volumes()) {
        if (volume != nullptr && entry.volume != volume->volume) continue;
        volumes[entry.name] =
            scope_json(Attribute::Scope::volume, served.target(entry.volume), names);
    }
    out["volumes"] = std::move(volumes);
    return out;
}

}  // namespace uc::admin
