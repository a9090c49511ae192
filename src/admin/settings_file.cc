#include "admin/settings_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "admin/attributes.h"
#include "io/buffer.h"
#include "ondisk/superblock.h"

namespace uc::admin {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kHead =
    "# Settings of ubcache: attributes under their sysfs names (ubcache get, ubcache set).\n"
    "# [set] is for the set and its cache device, [volume] for all volumes, [volumes.NAME] for "
    "one,\n"
    "# by its name or uuid. What ubcache serve --set-option says comes after this.\n";

std::string origin(const std::string& path, const toml::node& node) {
    return fmt::format("{}:{}", path, node.source().begin.line);
}

// As `ubcache set` takes it; empty: of a kind that no setting has.
std::string value_text(const toml::node& node) {
    if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
    if (const auto flag = node.value_exact<bool>()) return *flag ? "1" : "0";
    if (const auto text = node.value_exact<std::string>()) return *text;
    return {};
}

Outcome<> take(const std::string& path, const toml::table& table, const std::string& volume,
               bool of_volume, std::vector<SetOption>& out) {
    for (const auto& [key, node] : table) {
        SetOption option;
        option.origin = origin(path, node);
        option.name = std::string(key.str());
        option.value = value_text(node);
        option.volume = volume;
        option.of_volume = of_volume;
        if (option.value.empty()) {
            return tl::unexpected(fmt::format("{}: {}: write a number or a text in quotes",
                                              option.origin, option.name));
        }
        out.push_back(std::move(option));
    }
    return {};
}

Outcome<> take_section(const std::string& path, const std::string& name, const toml::node& node,
                       std::vector<SetOption>& out) {
    const toml::table* table = node.as_table();
    if (table != nullptr && name == "set") return take(path, *table, {}, false, out);
    if (table != nullptr && name == "volume") return take(path, *table, {}, true, out);
    if (table == nullptr || name != "volumes") {
        return tl::unexpected(fmt::format("{}: {}: there are [set], [volume] and [volumes.NAME]",
                                          origin(path, node), name));
    }
    for (const auto& [volume, section] : *table) {
        if (!section.is_table()) {
            return tl::unexpected(fmt::format("{}: write [volumes.NAME]", origin(path, section)));
        }
        TRY_OK(take(path, *section.as_table(), std::string(volume.str()), true, out));
    }
    return {};
}

std::string set_uuid_of(const std::string& cache_device) {
    std::ifstream file(cache_device, std::ios::binary);
    io::Buffer bytes(ondisk::kSuperblockBytes);
    file.seekg(ondisk::kSuperblockSector * kSectorBytes);
    file.read(reinterpret_cast<char*>(bytes.data()), ondisk::kSuperblockBytes);
    if (!file) return {};
    return ondisk::parse_superblock(bytes.span()).set_uuid.to_string();
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}

// A plain number, or quoted.
std::string toml_value(const std::string& text) {
    const bool plain = text.find_first_not_of("0123456789") == std::string::npos;
    return plain ? text : quoted(text);
}

// A slash cannot stand in a key as it is; names go without "internal/", too.
std::string key_of(std::string_view name) {
    constexpr std::string_view kInternal = "internal/";
    return std::string(name.starts_with(kInternal) ? name.substr(kInternal.size()) : name);
}

void default_section(Attribute::Scope scope, std::string& out) {
    for (const Attribute& attribute : attributes()) {
        if (attribute.scope != scope || attribute.preset.empty()) continue;
        const std::string_view unit = attribute.unit;
        out += fmt::format("\n# {}{}{}{}\n# {} = {}\n", attribute.meaning, unit.empty() ? "" : " (",
                           unit, unit.empty() ? "" : ")", key_of(attribute.name),
                           toml_value(std::string(attribute.preset)));
    }
}

std::string changed_section(Attribute::Scope scope, const json& values) {
    std::string out;
    for (const Attribute& attribute : attributes()) {
        if (attribute.scope != scope || attribute.preset.empty()) continue;
        const auto value = values.find(std::string(attribute.name));
        if (value == values.end() || !value->contains("number")) continue;
        const Outcome<AttributeValue> preset = parse_value(attribute, attribute.preset);
        const std::uint64_t number = value->at("number").get<std::uint64_t>();
        if (preset && preset->number == number) continue;
        out += fmt::format("{} = {}\n", key_of(attribute.name), number);
    }
    return out;
}

}  // namespace

Outcome<std::vector<SetOption>> read_settings(const std::string& path) {
    std::ifstream file(path);
    if (!file) return tl::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
    const toml::parse_result parsed = toml::parse(file, path);
    if (!parsed) {
        const toml::parse_error& error = parsed.error();
        return tl::unexpected(
            fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
    }
    std::vector<SetOption> out;
    for (const auto& [name, node] : parsed.table()) {
        TRY_OK(take_section(path, std::string(name.str()), node, out));
    }
    return out;
}

std::vector<std::string> default_settings_files(const ServeOptions& options) {
    std::vector<std::string> out;
    std::error_code ignored;
    const std::string uuid =
        options.assembled ? options.assembled->to_string() : set_uuid_of(options.cache);
    for (const std::string& path : {settings_path("settings"), settings_path(uuid)}) {
        if (!uuid.empty() && fs::exists(path, ignored)) out.push_back(path);
    }
    return out;
}

std::string default_settings_text() {
    std::string out(kHead);
    out += "\n[set]\n";
    default_section(Attribute::Scope::set, out);
    out += "\n[volume]\n";
    default_section(Attribute::Scope::volume, out);
    return out;
}

std::string settings_text(const json& attributes) {
    std::string out(kHead);
    if (attributes.contains("set")) {
        const std::string set = changed_section(Attribute::Scope::set, attributes["set"]);
        if (!set.empty()) out += "\n[set]\n" + set;
    }
    if (!attributes.contains("volumes")) return out;
    for (const auto& [name, values] : attributes["volumes"].items()) {
        const std::string volume = changed_section(Attribute::Scope::volume, values);
        if (!volume.empty()) out += fmt::format("\n[volumes.{}]\n{}", quoted(name), volume);
    }
    return out;
}

std::string settings_path(const std::string& set_uuid) {
    return fmt::format("{}/{}.toml", kSettingsDirectory, set_uuid);
}

Outcome<> write_settings(const std::string& path, const std::string& text) {
    const std::string fresh = path + ".new";
    const auto refuse = [&fresh](const char* what) {
        const int error = errno;
        ::unlink(fresh.c_str());
        return tl::unexpected(fmt::format("{}: {}: {}", fresh, what, std::strerror(error)));
    };
    constexpr mode_t kMode = 0644;
    const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
    if (fd < 0) return refuse("open");
    const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    const bool durable = written && ::fsync(fd) == 0;
    ::close(fd);
    if (!durable) return refuse("write");
    if (::rename(fresh.c_str(), path.c_str()) != 0) return refuse("rename");
    return {};
}

}  // namespace uc::admin
