// What `ubcache serve` is told, and what follows from it where nothing was said.
#include "admin/serve_command_line.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <utility>

#include "admin/complaint.h"
#include "admin/control_client.h"
#include "admin/endpoint.h"
#include "admin/set_directory.h"
#include "admin/settings_file.h"

namespace uc::admin {

namespace {

// Without a word NBD, the one that needs nothing of the machine.
void take_export(const std::string& kind, const std::filesystem::path& beside,
                 FrontEndOptions& front_ends) {
    const bool said = !front_ends.nbd.empty() || !front_ends.fuse.empty() || front_ends.ublk;
    if (kind == "auto") front_ends.automatic = beside.empty() ? "." : beside.string();
    if (kind == "ublk") front_ends.ublk = true;
    if (kind == "fuse" && front_ends.fuse.empty()) front_ends.fuse = (beside / "volumes").string();
    const bool nbd = kind == "nbd" || (kind.empty() && !said);
    if (nbd && front_ends.nbd.empty()) front_ends.nbd = "unix:" + (beside / "nbd.sock").string();
}

// Which devices: those that are named, or those of a set that have appeared.
void take_members(ServeWords& words) {
    ServeOptions& options = words.daemon.set;
    const int ways = !options.cache.empty() + !words.set.empty() + options.without_cache;
    if (ways != 1) {
        throw CLI::ValidationError("one of --cache, --set and --without-cache is needed");
    }
    if (options.without_cache && options.read_only) {
        throw CLI::ValidationError("--without-cache changes superblocks; not with --read-only");
    }
    if (words.set.empty()) return;
    if (!options.backings.empty()) {
        throw CLI::ValidationError("--set takes the members that have appeared; no --backing");
    }
    options.assembled = ondisk::Uuid::parse(words.set);
    if (!options.assembled) throw CLI::ValidationError("--set " + words.set + ": not a uuid");
    const SetDirectory directory(options.run_directory, *options.assembled);
    options.cache = directory.cache().value_or("");
    options.backings = directory.backings();
    options.without_cache = options.cache.empty() && directory.alone_allowed();
    if (options.cache.empty() && !options.without_cache) {
        throw CLI::ValidationError("--set " + words.set + ": its cache device has not appeared");
    }
    if (options.control == kDefaultControlPath) options.control = directory.control();
}

// From files; what the command line says comes after them.
Outcome<> load_settings(ServeWords& words) {
    ServeOptions& options = words.daemon.set;
    const std::vector<std::string> files =
        words.configs.empty() ? default_settings_files(options) : words.configs;
    for (const std::string& file : files) {
        TRY(const std::vector<SetOption> settings, read_settings(file));
        std::vector<SetOption>& all = options.set_options;
        all.insert(all.end(), settings.begin(), settings.end());
    }
    return {};
}

// The tree has its usual place where the sockets have theirs.
void take_sys(ServeWords& words) {
    const ServeOptions& options = words.daemon.set;
    SysTreeOptions& sys = words.daemon.sys;
    const bool usual = options.assembled ? options.run_directory == kRunDirectory
                                         : options.control == kDefaultControlPath;
    if (words.no_sys) {
        sys.directory.clear();
    } else if (sys.directory.empty() && usual && geteuid() == 0 &&
               access("/dev/fuse", R_OK | W_OK) == 0) {
        sys.directory = kDefaultSysPath;
        sys.is_default = true;
    }
}

void take_own_mounts(ServeWords& words) {
    const FrontEndOptions& front_ends = words.daemon.set.front_ends;
    std::vector<std::string> all{front_ends.fuse, words.daemon.sys.directory};
    if (!front_ends.automatic.empty()) all.push_back(front_ends.automatic + "/volumes");
    std::error_code ignored;
    for (const std::string& mount : all) {
        if (mount.empty()) continue;
        const std::filesystem::path path = std::filesystem::absolute(mount, ignored);
        std::filesystem::path real = std::filesystem::weakly_canonical(path, ignored);
        if (!real.has_filename()) real = real.parent_path();
        words.daemon.set.own_mounts.push_back(real.string());
    }
}

int serve(ServeWords& words) {
    ServeOptions& options = words.daemon.set;
    options.control = words.control;
    take_members(words);
    // systemd-shutdown(8) spares processes whose name begins so, until nothing is mounted.
    if (words.keep) words.program_name[0] = '@';
    const Outcome<> settings = load_settings(words);
    if (!settings) return complain_of_usage("serve", settings.error());
    for (const std::string& text : words.set_options) {
        const std::size_t equals = text.find('=');
        if (equals == std::string::npos) {
            throw CLI::ValidationError("--set-option",
                                       text + ": write KEY=VALUE, e.g. sequential_cutoff=0");
        }
        SetOption option;
        option.origin = "--set-option";
        option.name = text.substr(0, equals);
        option.value = text.substr(equals + 1);
        options.set_options.push_back(std::move(option));
    }
    const Outcome<Endpoint> endpoint = parse_endpoint(options.front_ends.nbd);
    if (!options.front_ends.nbd.empty() && !endpoint) {
        throw CLI::ValidationError(endpoint.error());
    }
    if (!words.group.empty()) {
        const Outcome<gid_t> group = find_group(words.group);
        if (!group) throw CLI::ValidationError(group.error());
        options.front_ends.group = *group;
        words.daemon.sys.group = *group;
        words.daemon.metrics.group = *group;
    }
    take_export(words.export_kind, std::filesystem::path(options.control).parent_path(),
                options.front_ends);
    take_sys(words);
    take_own_mounts(words);
    return serve_command(words.daemon);
}

void add_members(CLI::App& serve, ServeWords& words) {
    ServeOptions& options = words.daemon.set;
    options.run_directory = kRunDirectory;
    serve.add_option("--cache", options.cache, "Cache device");
    serve.add_option("--backing", options.backings, "Backing devices")->take_all();
    serve.add_option("--set", words.set,
                     "UUID of a set: serve the members that 'ubcache assemble' has noted, and take "
                     "others when they appear");
    serve
        .add_option("--wait", options.wait_s,
                    "With --set: seconds to wait for backing devices before the service counts as "
                    "started")
        ->capture_default_str();
    serve.add_flag("--without-cache", options.without_cache,
                   "Serve clean backing devices though their cache device is missing; what it has "
                   "of them is never used again");
    serve
        .add_option("--run-directory", options.run_directory, "With --set: where members are noted")
        ->capture_default_str();
    serve.add_flag("--keep-at-shutdown", words.keep,
                   "For the root file system: let systemd spare this process to the very end");
}

}  // namespace

void add_serve(CLI::App& app, ServeWords& words, int& status) {
    CLI::App* sub = app.add_subcommand(
        "serve", "Serve the volumes of a cache set until SIGTERM, SIGINT or ubcache stop");
    ServeOptions& options = words.daemon.set;
    add_members(*sub, words);
    sub->add_option("--nbd", options.front_ends.nbd,
                    "Listen for NBD clients on unix:PATH or HOST:PORT (default without --fuse "
                    "and --ublk: nbd.sock beside the control socket)");
    sub->add_flag("--nbd-anywhere", options.front_ends.nbd_anywhere,
                  "Allow an address other than the loopback's; NBD has no login and no encryption");
    sub->add_option("--fuse", options.front_ends.fuse,
                    "Show the volumes as files in this directory");
    sub->add_option("--export", words.export_kind,
                    "auto: block devices where the kernel has ublk, else files (FUSE), else NBD; "
                    "or ublk, fuse, nbd, at their usual places beside the control socket")
        ->check(CLI::IsMember({"auto", "ublk", "fuse", "nbd"}));
    sub->add_flag("--ublk", options.front_ends.ublk,
                  "Make each volume a block device of the kernel, /dev/ublkbN, with links in "
                  "/dev/ubcache");
    sub->add_option("--control", words.control, "Path of the control socket")
        ->capture_default_str();
    sub->add_option(
        "--group", words.group,
        "Members of this group may use the sockets and read the tree of attributes, too");
    sub->add_option("--metrics", words.daemon.metrics.endpoint,
                    "Answer Prometheus on unix:PATH or HOST:PORT (GET /metrics)");
    sub->add_flag("--metrics-anywhere", words.daemon.metrics.anywhere,
                  "Allow an address other than the loopback's");
    sub->add_option("--config", words.configs,
                    "Settings files (default: settings.toml and SET-UUID.toml in /etc/ubcache)")
        ->take_all();
    sub->add_option("--sys", words.daemon.sys.directory,
                    "Show the attributes in this directory as in /sys (default for root with the "
                    "default control socket: /run/ubcache/sys)");
    sub->add_flag("--no-sys", words.no_sys, "Show them nowhere");
    sub->add_flag("--read-only", options.read_only, "Never write to any device");
    sub->add_flag(
        "--attach", options.attach,
        "Attach backing devices that belong to no set (states no cache and inconsistent); "
        "members of another set are refused");
    sub->add_option("--set-option", words.set_options, "KEY=VALUE as for ubcache set")->take_all();
    sub->footer(
        "Example:\n"
        "  ubcache serve --cache ssd.img --backing disk.img --fuse /mnt/volumes\n"
        "  ubcache serve --cache /dev/sdc1 --backing /dev/sda --export auto\n"
        "  ubcache serve --cache /dev/nvme0n1p3 --backing /dev/sda /dev/sdb --nbd "
        "localhost:10809");
    sub->callback([&words, &status] { status = serve(words); });
}

}  // namespace uc::admin
