// The attributes of a set in the shape of /sys: fs/bcache/UUID, block/NAME/bcache, and the links
// between them that readers of bcache's attributes follow.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/attributes.h"
#include "admin/served_set.h"
#include "frontend/tree_mount.h"

namespace uc::admin {

class ControlTree final : public frontend::TreeContent {
public:
    using Log = std::function<void(const std::string&)>;

    // Only while the set is open.
    ControlTree(ServedSet& served, Log log) : served_(served), log_(std::move(log)) {}

    std::optional<frontend::TreeEntry> find(const std::string& path) override;
    std::vector<std::string> list(const std::string& directory) override;
    std::string read(const std::string& file) override;
    Task<int> write(std::string file, std::string text) override;

private:
    enum class Action : std::uint8_t { none, register_device, register_quiet, nothing };
    struct Node {
        frontend::TreeEntry entry;
        const Attribute* attribute = nullptr;
        core::SetVolume* volume = nullptr;
        std::string text;  // of files that are neither attributes nor commands
        Action action = Action::none;
        std::vector<std::string> names;  // of a directory
    };

    // Of the volumes that there are now.
    const std::map<std::string, Node>& nodes();
    std::string signature() const;
    void build();
    Node& add(const std::string& path, Node node);
    void add_link(const std::string& path, std::string target);
    void add_text(const std::string& path, std::string text);
    void add_action(const std::string& path, Action action);
    void add_attributes(const std::string& directory, Attribute::Scope scope,
                        core::SetVolume* volume);
    void add_device(const std::string& path, const std::string& device, std::uint64_t sectors);
    void add_set();
    void add_cache();
    void add_volume(const ServedVolume& served);
    std::string device_name(const std::string& device) const;
    Task<int> register_device(std::string path, bool quiet);

    ServedSet& served_;
    Log log_;
    std::string built_for_;
    std::map<std::string, Node> nodes_;  // by path
};

}  // namespace uc::admin
