// Events of the members of a set may come in any order and at the same time. Each note is made
// before anything is looked at, and the daemon looks at the notes as long as it runs; so whoever
// comes last sees what the others have left, and nobody has to wait for anybody.
//
// The cache's event starts the service. That of a backing device finds either the daemon, which
// will see the note; or no cache, and then it can only start the clock for "go on without".
#include "admin/assemble_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "admin/complaint.h"
#include "admin/program.h"

namespace uc::admin {

namespace {

class Assembly {
public:
    explicit Assembly(const AssembleOptions& options) : options_(options) {}

    // Returns what was done, in one line.
    Outcome<std::string> add(const std::string& device) const;
    Outcome<std::string> go_on_alone(const std::string& set) const;
    Outcome<Member> owned(const std::string& device, SetConfig& config) const;

private:
    bool starts_services() const {
        if (options_.start != "auto") return options_.start == "yes";
        return std::filesystem::is_directory("/run/systemd/system");
    }
    Outcome<std::string> start(const std::string& set) const;
    Outcome<std::string> start_later(const std::string& set, std::uint32_t seconds) const;

    const AssembleOptions& options_;
};

Outcome<Member> Assembly::owned(const std::string& device, SetConfig& config) const {
    TRY(Member member, recognise_member(device));
    const ondisk::Uuid& set = member.superblock.set_uuid;
    TRY(const std::optional<SetConfig> found, read_set_config(options_.config_directory, set));
    if (!found) {
        return tl::unexpected(
            fmt::format("{}: set {} is left to the kernel; {}/{}.conf would make "
                        "it ubcache's",
                        device, set.to_string(), options_.config_directory, set.to_string()));
    }
    config = *found;
    return member;
}

Outcome<std::string> Assembly::add(const std::string& device) const {
    SetConfig config;
    TRY(const Member member, owned(device, config));
    const ondisk::Superblock& superblock = member.superblock;
    const std::string set = superblock.set_uuid.to_string();
    const SetDirectory directory(options_.run_directory, superblock.set_uuid);
    TRY_OK(directory.record(member));
    if (directory.is_served()) return fmt::format("{}: set {} is served", device, set);
    if (directory.cache()) return start(set);
    const bool clean = superblock.state() != ondisk::BackingState::dirty;
    if (clean && config.alone_after_s) return start_later(set, *config.alone_after_s);
    return fmt::format("{}: set {} waits for its cache device", device, set);
}

Outcome<std::string> Assembly::start(const std::string& set) const {
    if (!starts_services()) {
        return fmt::format("set {}: can be served: ubcache serve --set {}", set, set);
    }
    // Starting what is being started already is no error.
    TRY_OK(run_program({"systemctl", "--no-block", "start", "ubcache@" + set + ".service"}));
    return fmt::format("set {}: service started", set);
}

Outcome<std::string> Assembly::start_later(const std::string& set, std::uint32_t seconds) const {
    const std::string said =
        fmt::format("set {}: goes on without its cache device in {} s", set, seconds);
    if (!starts_services()) return said;
    // Fails if the clock of this set is running already, for another backing device.
    const Outcome<> ignored = run_program(
        {"systemd-run", "--quiet", "--no-block", "--collect", "--unit=ubcache-alone-" + set,
         fmt::format("--on-active={}", seconds), "--timer-property=AccuracySec=1s",
         std::filesystem::read_symlink("/proc/self/exe").string(), "assemble", "--alone", set});
    static_cast<void>(ignored);
    return said;
}

Outcome<std::string> Assembly::go_on_alone(const std::string& text) const {
    const std::optional<ondisk::Uuid> set = ondisk::Uuid::parse(text);
    if (!set) return tl::unexpected(fmt::format("--alone {}: the uuid of a set is expected", text));
    const SetDirectory directory(options_.run_directory, *set);
    if (directory.is_served()) return fmt::format("set {} is served", text);
    if (directory.cache()) return start(text);
    const std::vector<std::string> backings = directory.backings();
    if (backings.empty()) {
        return tl::unexpected(fmt::format("set {}: no backing device has appeared", text));
    }
    for (const std::string& path : backings) {
        TRY(const Member member, recognise_member(path));
        if (member.superblock.state() != ondisk::BackingState::dirty) continue;
        return tl::unexpected(fmt::format(
            "{}: is dirty: its newest data is in the cache device, which is missing; set {} is not "
            "started",
            path, text));
    }
    TRY_OK(directory.allow_alone());
    return start(text);
}

int describe(const Assembly& assembly, const std::string& device) {
    SetConfig config;
    const Outcome<Member> member = assembly.owned(device, config);
    if (!member) return 1;
    const ondisk::Superblock& superblock = member->superblock;
    std::printf("UBCACHE_SET=%s\nUBCACHE_UUID=%s\nUBCACHE_TYPE=%s\n",
                superblock.set_uuid.to_string().c_str(), superblock.uuid.to_string().c_str(),
                superblock.is_cache() ? "cache" : "backing");
    return 0;
}

}  // namespace

int assemble_command(const AssembleOptions& options) {
    const Assembly assembly(options);
    int status = 0;
    const auto tell = [&status](const Outcome<std::string>& done) {
        if (done) {
            std::printf("%s\n", done->c_str());
        } else {
            status = complain("assemble", done.error());
        }
    };
    if (!options.alone.empty()) tell(assembly.go_on_alone(options.alone));
    for (const std::string& device : options.devices) {
        if (options.describe) {
            status = std::max(status, describe(assembly, device));
        } else {
            tell(assembly.add(device));
        }
    }
    return status;
}

}  // namespace uc::admin
