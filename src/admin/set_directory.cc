#include "admin/set_directory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "admin/control_client.h"

namespace uc::admin {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kBackingPrefix = "backing-";
constexpr const char* kAlone = "without-cache";

std::string link_name(const Member& member) {
    if (member.superblock.is_cache()) return "cache";
    return std::string(kBackingPrefix) + member.superblock.uuid.to_string();
}

// VALUE, "VALUE" or 'VALUE'.
std::string_view unquoted(std::string_view text) {
    const std::size_t end = text.find_last_not_of(" \t\r");
    text = text.substr(0, end == std::string_view::npos ? 0 : end + 1);
    const bool quoted =
        text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
    return quoted ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

SetDirectory::SetDirectory(const std::string& run, const ondisk::Uuid& set)
    : path_(run + "/" + set.to_string()), set_(set) {}

Outcome<> SetDirectory::record(const Member& member) const {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) return tl::unexpected(fmt::format("{}: {}", path_, error.message()));
    // Two events of one device may come at a time; each link appears whole.
    const std::string target = path_ + "/" + link_name(member);
    const std::string fresh = fmt::format("{}.{}", target, getpid());
    fs::create_symlink(fs::absolute(member.path), fresh, error);
    if (!error) fs::rename(fresh, target, error);
    if (error) return tl::unexpected(fmt::format("{}: {}", target, error.message()));
    if (member.superblock.is_cache()) fs::remove(path_ + "/" + kAlone, error);
    return {};
}

Outcome<> SetDirectory::allow_alone() const {
    const std::string path = path_ + "/" + kAlone;
    if (std::ofstream(path)) return {};
    return tl::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
}

bool SetDirectory::alone_allowed() const {
    std::error_code error;
    return fs::exists(path_ + "/" + kAlone, error);
}

std::optional<Member> SetDirectory::member_at(const std::string& name) const {
    std::error_code error;
    const fs::path device = fs::read_symlink(path_ + "/" + name, error);
    if (error) return std::nullopt;
    Outcome<Member> member = recognise_member(device.string());
    // Names are given anew: what was the disk may be another one now.
    if (!member || member->superblock.set_uuid != set_ || link_name(*member) != name) {
        return std::nullopt;
    }
    return std::move(*member);
}

std::optional<std::string> SetDirectory::cache() const {
    const std::optional<Member> member = member_at("cache");
    if (!member) return std::nullopt;
    return member->path;
}

std::vector<ondisk::Uuid> SetDirectory::noted_backings() const {
    std::vector<ondisk::Uuid> noted;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path_, error)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with(kBackingPrefix)) continue;
        const auto uuid = ondisk::Uuid::parse(name.substr(kBackingPrefix.size()));
        if (uuid) noted.push_back(*uuid);
    }
    std::sort(noted.begin(), noted.end());
    return noted;
}

std::optional<std::string> SetDirectory::backing(const ondisk::Uuid& uuid) const {
    const std::optional<Member> member = member_at(std::string(kBackingPrefix) + uuid.to_string());
    if (!member) return std::nullopt;
    return member->path;
}

std::vector<std::string> SetDirectory::backings() const {
    std::vector<std::string> paths;
    for (const ondisk::Uuid& uuid : noted_backings()) {
        if (const std::optional<std::string> path = backing(uuid)) paths.push_back(*path);
    }
    return paths;
}

bool SetDirectory::is_served() const {
    return ControlClient::connect(control()).has_value();
}

Outcome<std::optional<SetConfig>> read_set_config(const std::string& directory,
                                                  const ondisk::Uuid& set) {
    constexpr std::string_view kAloneAfter = "ALONE_AFTER=";
    const std::string path = fmt::format("{}/{}.conf", directory, set.to_string());
    std::ifstream file(path);
    if (!file) {
        if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
        return tl::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
    }
    SetConfig config;
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with(kAloneAfter)) continue;  // the rest is for the unit
        const std::string_view text = unquoted(std::string_view(line).substr(kAloneAfter.size()));
        if (text.empty()) continue;
        std::uint32_t seconds = 0;
        const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
        if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
            return tl::unexpected(
                fmt::format("{}: ALONE_AFTER={}: a number of seconds is expected", path, text));
        }
        config.alone_after_s = seconds;
    }
    return config;
}

}  // namespace uc::admin
