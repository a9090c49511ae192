// The tree is built anew when the volumes have changed; what files hold is read at each read.
//
//   fs/bcache/register
//   fs/bcache/UUID/...  internal/...  stats_*/...
//   fs/bcache/UUID/cache0     -> ../../../block/CACHE/bcache
//   fs/bcache/UUID/bdevN      -> ../../../block/BACKING/bcache
//   block/BACKING/bcache/...  dev -> ../../bcacheN   cache -> ../../../fs/bcache/UUID
//   block/bcacheN/bcache      -> ../BACKING/bcache
//
// Flash-only volumes have no device but themselves: block/bcacheN/bcache is a directory then.
#include "admin/control_tree.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace uc::admin {

namespace {

using frontend::TreeEntry;
using Kind = TreeEntry::Kind;

unsigned mode_of(const Attribute& attribute) {
    if (!attribute.readable()) return 0200;
    return attribute.writable() ? 0644 : 0444;
}

std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

std::string last_of(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

// "8:16"; image files have no number.
std::string device_number(const std::string& device) {
    struct stat info {};
    if (::stat(device.c_str(), &info) != 0 || !S_ISBLK(info.st_mode)) return "0:0";
    return fmt::format("{}:{}", major(info.st_rdev), minor(info.st_rdev));
}

std::string block_name(const core::SetVolume& volume) {
    return volume.attached() ? fmt::format("bcache{}", volume.inode())
                             : "bcache-" + volume.uuid().to_string().substr(0, 8);
}

// As write(2) on a file of sysfs fails.
int sysfs_errno(const Error& error) {
    switch (error.code) {
        case Errc::invalid:
            return EINVAL;
        case Errc::not_found:
            return ENOENT;
        case Errc::busy:
        case Errc::stopped:
            return EBUSY;
        case Errc::no_space:
            return ENOSPC;
        case Errc::read_only:
            return EROFS;
        case Errc::unsupported:
            return EOPNOTSUPP;
        case Errc::gone:
            return ENODEV;
        case Errc::io:
        case Errc::corrupt:
        case Errc::data_lost:
            break;
    }
    return EIO;
}

}  // namespace

std::string ControlTree::signature() const {
    std::string out = served_.set()->superblock().set_uuid.to_string() + "\n";
    for (const ServedVolume& served : served_.volumes()) {
        const core::SetVolume& volume = *served.volume;
        out += fmt::format("{} {} {}\n", volume.uuid().to_string(), volume.backing_name(),
                           volume.attached() ? std::to_string(volume.inode()) : "-");
    }
    return out;
}

const std::map<std::string, ControlTree::Node>& ControlTree::nodes() {
    std::string now = signature();
    if (nodes_.empty() || now != built_for_) {
        built_for_ = std::move(now);
        build();
    }
    return nodes_;
}

ControlTree::Node& ControlTree::add(const std::string& path, Node node) {
    const auto known = nodes_.find(path);
    if (known != nodes_.end()) return known->second;
    if (!path.empty()) {
        Node directory;
        directory.entry.kind = Kind::directory;
        add(parent_of(path), std::move(directory)).names.push_back(last_of(path));
    }
    return nodes_.emplace(path, std::move(node)).first->second;
}

void ControlTree::add_link(const std::string& path, std::string target) {
    Node node;
    node.entry.kind = Kind::link;
    node.entry.target = std::move(target);
    add(path, std::move(node));
}

void ControlTree::add_text(const std::string& path, std::string text) {
    Node node;
    node.text = std::move(text);
    add(path, std::move(node));
}

void ControlTree::add_action(const std::string& path, Action action) {
    Node node;
    node.entry.mode = 0200;
    node.action = action;
    add(path, std::move(node));
}

void ControlTree::add_attributes(const std::string& directory, Attribute::Scope scope,
                                 core::SetVolume* volume) {
    for (const Attribute& attribute : attributes()) {
        if (attribute.scope != scope || !attribute.applies_to(volume)) continue;
        Node node;
        node.entry.mode = mode_of(attribute);
        node.attribute = &attribute;
        node.volume = volume;
        add(directory + "/" + std::string(attribute.name), std::move(node));
    }
}

void ControlTree::add_device(const std::string& path, const std::string& device,
                             std::uint64_t sectors) {
    add_text(path + "/size", std::to_string(sectors));
    add_text(path + "/dev", device_number(device));
}

// Two images may have the same name in two directories.
std::string ControlTree::device_name(const std::string& device) const {
    std::error_code ignored;
    const std::filesystem::path real = std::filesystem::weakly_canonical(device, ignored);
    std::string name = (ignored ? std::filesystem::path(device) : real).filename().string();
    while (nodes_.contains("block/" + name)) name += "-";
    return name;
}

void ControlTree::build() {
    nodes_.clear();
    add_action("fs/bcache/register", Action::register_device);
    add_action("fs/bcache/register_quiet", Action::register_quiet);
    add_action("fs/bcache/pendings_cleanup", Action::nothing);
    add_set();
    add_cache();
    for (const ServedVolume& served : served_.volumes()) add_volume(served);
}

void ControlTree::add_set() {
    const std::string uuid = served_.set()->superblock().set_uuid.to_string();
    add_attributes("fs/bcache/" + uuid, Attribute::Scope::set, nullptr);
}

void ControlTree::add_cache() {
    core::CacheSet& set = *served_.set();
    const std::string uuid = set.superblock().set_uuid.to_string();
    const std::string name = device_name(set.cache_name());
    const ondisk::Superblock& superblock = set.superblock();
    add_device("block/" + name, set.cache_name(),
               superblock.nbuckets_or_offset * superblock.bucket_sectors());
    add_attributes("block/" + name + "/bcache", Attribute::Scope::cache, nullptr);
    add_link("block/" + name + "/bcache/set", "../../../fs/bcache/" + uuid);
    add_link("fs/bcache/" + uuid + "/cache0", "../../../block/" + name + "/bcache");
}

void ControlTree::add_volume(const ServedVolume& served) {
    core::SetVolume& volume = *served.volume;
    const std::string uuid = served_.set()->superblock().set_uuid.to_string();
    const std::string own = block_name(volume);
    std::string name = own;
    add_text("block/" + own + "/size", std::to_string(volume.size_sectors()));
    add_text("block/" + own + "/dev", "0:0");  // clients choose under which device they see it
    if (!volume.flash_only()) {
        name = device_name(volume.backing_name());
        add_device("block/" + name, volume.backing_name(), volume.size_sectors());
        add_link("block/" + own + "/bcache", "../" + name + "/bcache");
        add_link("block/" + name + "/bcache/dev", "../../" + own);
    }
    add_attributes("block/" + name + "/bcache", Attribute::Scope::volume, &volume);
    if (!volume.attached()) return;
    add_link("block/" + name + "/bcache/cache", "../../../fs/bcache/" + uuid);
    add_link(fmt::format("fs/bcache/{}/{}{}", uuid, volume.flash_only() ? "volume" : "bdev",
                         volume.inode()),
             "../../../block/" + name + "/bcache");
}

std::optional<TreeEntry> ControlTree::find(const std::string& path) {
    const auto& all = nodes();
    const auto found = all.find(path);
    if (found == all.end()) return std::nullopt;
    return found->second.entry;
}

std::vector<std::string> ControlTree::list(const std::string& directory) {
    const auto& all = nodes();
    const auto found = all.find(directory);
    return found == all.end() ? std::vector<std::string>() : found->second.names;
}

std::string ControlTree::read(const std::string& file) {
    const auto& all = nodes();
    const auto found = all.find(file);
    if (found == all.end()) return {};
    const Node& node = found->second;
    if (node.attribute == nullptr) return node.text + "\n";
    return read_attribute(*node.attribute, served_.target(node.volume)) + "\n";
}

Task<int> ControlTree::write(std::string file, std::string text) {
    if (served_.stopping()) co_return EBUSY;
    const auto& all = nodes();
    const auto found = all.find(file);
    if (found == all.end()) co_return ENODEV;
    const Node node = found->second;
    if (node.action == Action::nothing) co_return 0;
    if (node.action != Action::none) {
        co_return co_await register_device(text, node.action == Action::register_quiet);
    }
    if (node.attribute == nullptr) co_return EACCES;
    const Attribute& attribute = *node.attribute;
    const Outcome<AttributeValue> value = parse_value(attribute, text, OutOfRange::clamp);
    if (!value) co_return EINVAL;
    const AttributeTarget target = served_.target(node.volume);
    const Result<void> done = co_await write_attribute(attribute, target, *value);
    co_return done ? 0 : sysfs_errno(done.error());
}

// As in the kernel the reason for a refusal is in the log.
Task<int> ControlTree::register_device(std::string path, bool quiet) {
    constexpr std::string_view kBlanks = " \t\n";
    const std::size_t from = path.find_first_not_of(kBlanks);
    if (from == std::string::npos) co_return EINVAL;
    path = path.substr(from, path.find_last_not_of(kBlanks) + 1 - from);
    // (find() compares words.)
    const bool known = served_.find(path) != nullptr || served_.set()->cache_name() == path;
    if (known) co_return quiet ? 0 : EINVAL;
    const Outcome<std::string> added = co_await served_.join(path);
    if (added) co_return 0;
    log_("register: " + added.error());
    co_return EINVAL;
}

}  // namespace uc::admin
