#include "admin/command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/abandon_command.h"
#include "admin/assemble_command.h"
#include "admin/attributes.h"
#include "admin/client_commands.h"
#include "admin/config_command.h"
#include "admin/control_client.h"
#include "admin/daemon.h"
#include "admin/endpoint.h"
#include "admin/set_directory.h"
#include "admin/settings_file.h"
#include "admin/show_command.h"
#include "admin/suggestion.h"

namespace uc::admin {

namespace {

// Where the parsed options live, and what the chosen command returned.
struct Parsed {
    int status = 0;
    ClientOptions client;
    std::vector<std::string> devices;
    std::vector<std::string> assignments;
    std::string device;
    std::string volume;
    std::string size;
    std::string label;
    bool flag = false;
    std::string export_kind;
    DaemonOptions daemon;
    bool no_sys = false;
    std::vector<std::string> configs;
    AbandonOptions abandon;
    std::vector<std::string> set_options;
    std::string group;
    std::string set;
    bool keep = false;
    AssembleOptions assemble;
    char* program_name = nullptr;  // as ps and the service manager see it
};

constexpr int kUsage = 2;  // exit status

int complain(const std::string& text) {
    std::string line = "ubcache: " + text;
    std::replace(line.begin(), line.end(), '\n', ' ');
    std::fprintf(stderr, "%s\n", line.c_str());
    return kUsage;
}

void add_show(CLI::App& app, Parsed& parsed) {
    CLI::App* show = app.add_subcommand("show", "Show the superblock of devices");
    show->add_option("device", parsed.devices, "Devices or image files")->required();
    show->add_flag("--json", parsed.client.json, "Print all fields as JSON");
    show->footer("Example:\n  ubcache show ssd.img disk.img");
    show->callback([&parsed] { parsed.status = show_command(parsed.devices, parsed.client.json); });
}

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
void take_members(Parsed& parsed) {
    ServeOptions& options = parsed.daemon.set;
    const int ways = !options.cache.empty() + !parsed.set.empty() + options.without_cache;
    if (ways != 1) {
        throw CLI::ValidationError("one of --cache, --set and --without-cache is needed");
    }
    if (options.without_cache && options.read_only) {
        throw CLI::ValidationError("--without-cache changes superblocks; not with --read-only");
    }
    if (parsed.set.empty()) return;
    if (!options.backings.empty()) {
        throw CLI::ValidationError("--set takes the members that have appeared; no --backing");
    }
    options.assembled = ondisk::Uuid::parse(parsed.set);
    if (!options.assembled) throw CLI::ValidationError("--set " + parsed.set + ": not a uuid");
    const SetDirectory directory(options.run_directory, *options.assembled);
    options.cache = directory.cache().value_or("");
    options.backings = directory.backings();
    options.without_cache = options.cache.empty() && directory.alone_allowed();
    if (options.cache.empty() && !options.without_cache) {
        throw CLI::ValidationError("--set " + parsed.set + ": its cache device has not appeared");
    }
    if (options.control == kDefaultControlPath) options.control = directory.control();
}

// From files; what the command line says comes after them.
Outcome<> load_settings(Parsed& parsed) {
    ServeOptions& options = parsed.daemon.set;
    const std::vector<std::string> files =
        parsed.configs.empty() ? default_settings_files(options) : parsed.configs;
    for (const std::string& file : files) {
        TRY(const std::vector<SetOption> settings, read_settings(file));
        std::vector<SetOption>& all = options.set_options;
        all.insert(all.end(), settings.begin(), settings.end());
    }
    return {};
}

// The tree has its usual place where the sockets have theirs.
void take_sys(Parsed& parsed) {
    const ServeOptions& options = parsed.daemon.set;
    SysTreeOptions& sys = parsed.daemon.sys;
    const bool usual = options.assembled ? options.run_directory == kRunDirectory
                                         : options.control == kDefaultControlPath;
    if (parsed.no_sys) {
        sys.directory.clear();
    } else if (sys.directory.empty() && usual && geteuid() == 0 &&
               access("/dev/fuse", R_OK | W_OK) == 0) {
        sys.directory = kDefaultSysPath;
        sys.is_default = true;
    }
}

void take_own_mounts(Parsed& parsed) {
    const FrontEndOptions& front_ends = parsed.daemon.set.front_ends;
    std::vector<std::string> all{front_ends.fuse, parsed.daemon.sys.directory};
    if (!front_ends.automatic.empty()) all.push_back(front_ends.automatic + "/volumes");
    std::error_code ignored;
    for (const std::string& mount : all) {
        if (mount.empty()) continue;
        const std::filesystem::path path = std::filesystem::absolute(mount, ignored);
        std::filesystem::path real = std::filesystem::weakly_canonical(path, ignored);
        if (!real.has_filename()) real = real.parent_path();
        parsed.daemon.set.own_mounts.push_back(real.string());
    }
}

int serve(Parsed& parsed) {
    ServeOptions& options = parsed.daemon.set;
    options.control = parsed.client.control;
    take_members(parsed);
    // systemd-shutdown(8) spares processes whose name begins so, until nothing is mounted.
    if (parsed.keep) parsed.program_name[0] = '@';
    const Outcome<> settings = load_settings(parsed);
    if (!settings) return complain("serve: " + settings.error());
    for (const std::string& text : parsed.set_options) {
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
    if (!parsed.group.empty()) {
        const Outcome<gid_t> group = find_group(parsed.group);
        if (!group) throw CLI::ValidationError(group.error());
        options.front_ends.group = *group;
        parsed.daemon.sys.group = *group;
        parsed.daemon.metrics.group = *group;
    }
    take_export(parsed.export_kind, std::filesystem::path(options.control).parent_path(),
                options.front_ends);
    take_sys(parsed);
    take_own_mounts(parsed);
    return serve_command(parsed.daemon);
}

void add_members(CLI::App& serve, Parsed& parsed) {
    ServeOptions& options = parsed.daemon.set;
    options.run_directory = kRunDirectory;
    serve.add_option("--cache", options.cache, "Cache device");
    serve.add_option("--backing", options.backings, "Backing devices")->take_all();
    serve.add_option("--set", parsed.set,
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
    serve.add_flag("--keep-at-shutdown", parsed.keep,
                   "For the root file system: let systemd spare this process to the very end");
}

void add_assemble(CLI::App& app, Parsed& parsed) {
    AssembleOptions& options = parsed.assemble;
    CLI::App* sub = app.add_subcommand(
        "assemble", "Note members of a set that have appeared, and start its service (for udev)");
    sub->add_option("device", options.devices, "Block devices");
    sub->add_flag("--describe", options.describe,
                  "Only say what a device is, as KEY=VALUE; exit status 1 if it is none of ours");
    sub->add_option("--alone", options.alone,
                    "UUID of a set: start its clean backing devices without the cache device");
    sub->add_option("--start", options.start, "Start services: auto (if systemd runs), yes or no")
        ->check(CLI::IsMember({"auto", "yes", "no"}))
        ->capture_default_str();
    sub->add_option("--run-directory", options.run_directory, "Where members are noted")
        ->capture_default_str();
    sub->add_option("--config-directory", options.config_directory, "Where SET.conf is")
        ->capture_default_str();
    sub->footer("Example:\n  ubcache assemble /dev/nvme0n1p3 /dev/sda");
    sub->callback([&parsed] { parsed.status = assemble_command(parsed.assemble); });
}

void add_serve(CLI::App& app, Parsed& parsed) {
    CLI::App* sub = app.add_subcommand(
        "serve", "Serve the volumes of a cache set until SIGTERM, SIGINT or ubcache stop");
    ServeOptions& options = parsed.daemon.set;
    add_members(*sub, parsed);
    sub->add_option("--nbd", options.front_ends.nbd,
                    "Listen for NBD clients on unix:PATH or HOST:PORT (default without --fuse "
                    "and --ublk: nbd.sock beside the control socket)");
    sub->add_flag("--nbd-anywhere", options.front_ends.nbd_anywhere,
                  "Allow an address other than the loopback's; NBD has no login and no encryption");
    sub->add_option("--fuse", options.front_ends.fuse,
                    "Show the volumes as files in this directory");
    sub->add_option("--export", parsed.export_kind,
                    "auto: block devices where the kernel has ublk, else files (FUSE), else NBD; "
                    "or ublk, fuse, nbd, at their usual places beside the control socket")
        ->check(CLI::IsMember({"auto", "ublk", "fuse", "nbd"}));
    sub->add_flag("--ublk", options.front_ends.ublk,
                  "Make each volume a block device of the kernel, /dev/ublkbN, with links in "
                  "/dev/ubcache");
    sub->add_option("--control", parsed.client.control, "Path of the control socket")
        ->capture_default_str();
    sub->add_option(
        "--group", parsed.group,
        "Members of this group may use the sockets and read the tree of attributes, too");
    sub->add_option("--metrics", parsed.daemon.metrics.endpoint,
                    "Answer Prometheus on unix:PATH or HOST:PORT (GET /metrics)");
    sub->add_flag("--metrics-anywhere", parsed.daemon.metrics.anywhere,
                  "Allow an address other than the loopback's");
    sub->add_option("--config", parsed.configs,
                    "Settings files (default: settings.toml and SET-UUID.toml in /etc/ubcache)")
        ->take_all();
    sub->add_option("--sys", parsed.daemon.sys.directory,
                    "Show the attributes in this directory as in /sys (default for root with the "
                    "default control socket: /run/ubcache/sys)");
    sub->add_flag("--no-sys", parsed.no_sys, "Show them nowhere");
    sub->add_flag("--read-only", options.read_only, "Never write to any device");
    sub->add_flag("--attach", options.attach,
                  "Attach backing devices that belong to no set, or to another one");
    sub->add_option("--set-option", parsed.set_options, "KEY=VALUE as for ubcache set")->take_all();
    sub->footer(
        "Example:\n"
        "  ubcache serve --cache ssd.img --backing disk.img --fuse /mnt/volumes\n"
        "  ubcache serve --cache /dev/sdc1 --backing /dev/sda --export auto\n"
        "  ubcache serve --cache /dev/nvme0n1p3 --backing /dev/sda /dev/sdb --nbd "
        "localhost:10809");
    sub->callback([&parsed] { parsed.status = serve(parsed); });
}

CLI::App* add_client(CLI::App& app, Parsed& parsed, const char* name, const char* what,
                     const char* example) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->add_option("--control", parsed.client.control, "Path of the daemon's control socket")
        ->capture_default_str();
    sub->add_flag("--json", parsed.client.json, "Print the result as JSON");
    sub->footer(std::string("Example:\n  ubcache ") + example);
    return sub;
}

std::string settable_names() {
    std::string names;
    for (const Attribute& attribute : attributes()) {
        if (attribute.writable())
            names += (names.empty() ? "" : ", ") + std::string(attribute.name);
    }
    return names;
}

void add_set(CLI::App& app, Parsed& parsed) {
    CLI::App* sub = add_client(app, parsed, "set", "Change attributes (sysfs names) while running",
                               "set cache_mode=writeback sequential_cutoff=0 --volume home");
    sub->add_option("assignment", parsed.assignments, "KEY=VALUE: " + settable_names())->required();
    sub->add_option("--volume", parsed.volume, "Only this volume (default: all)");
    sub->callback([&parsed] {
        parsed.status = set_command(parsed.client, parsed.assignments, parsed.volume);
    });
}

void add_get(CLI::App& app, Parsed& parsed) {
    CLI::App* sub = add_client(app, parsed, "get", "Show attributes (sysfs names)",
                               "get dirty_data --volume home");
    sub->add_option("name", parsed.assignments, "Names of attributes (default: all)");
    sub->add_option("--volume", parsed.volume, "Only this volume (default: set and all volumes)");
    sub->callback([&parsed] {
        parsed.status = get_command(parsed.client, parsed.assignments, parsed.volume);
    });
}

int config(Parsed& parsed, bool defaults) {
    return defaults ? config_defaults_command() : config_save_command(parsed.client, parsed.device);
}

void add_config(CLI::App& app, Parsed& parsed) {
    CLI::App* sub =
        app.add_subcommand("config", "Settings files: all defaults, or what is set now");
    sub->add_option("--control", parsed.client.control, "Path of the daemon's control socket")
        ->capture_default_str();
    CLI::Option* defaults =
        sub->add_flag("--defaults", parsed.flag, "Print a file with all settings, commented out");
    CLI::Option* save = sub->add_option(
        "--save", parsed.device,
        "Save what differs from the defaults to this file (none: /etc/ubcache/SET-UUID.toml; -: "
        "standard output)");
    save->expected(0, 1)->excludes(defaults);
    sub->footer("Example:\n  ubcache config --defaults\n  ubcache config --save");
    sub->callback([&parsed, defaults, save] {
        if (defaults->count() + save->count() == 0) {
            throw CLI::ValidationError("name one of --defaults and --save");
        }
        parsed.status = config(parsed, parsed.flag);
    });
}

void add_volume_commands(CLI::App& app, Parsed& parsed) {
    CLI::App* attach =
        add_client(app, parsed, "attach", "Take a backing device into service", "attach /dev/sdb");
    attach->add_option("device", parsed.device, "Backing device")->required();
    attach->callback([&parsed] { parsed.status = attach_command(parsed.client, parsed.device); });

    CLI::App* detach = add_client(
        app, parsed, "detach",
        "Write a volume's dirty data back, then separate it from the cache set", "detach home");
    detach->add_option("volume", parsed.volume, "Name of the volume")->required();
    detach->callback([&parsed] { parsed.status = detach_command(parsed.client, parsed.volume); });

    CLI::App* flush = add_client(app, parsed, "flush",
                                 "Write all dirty data back to the backing devices", "flush home");
    flush->add_option("volume", parsed.volume, "Only this volume");
    flush->callback([&parsed] { parsed.status = flush_command(parsed.client, parsed.volume); });

    CLI::App* create = add_client(app, parsed, "create-volume",
                                  "Create a volume that lives on the cache device alone",
                                  "create-volume 10G --label scratch");
    create->add_option("size", parsed.size, "Size, e.g. 10G")->required();
    create->add_option("--label", parsed.label, "Name, at most 31 characters");
    create->callback([&parsed] {
        parsed.status = create_volume_command(parsed.client, parsed.size, parsed.label);
    });
}

void add_abandon(CLI::App& app, Parsed& parsed) {
    CLI::App* sub = add_client(
        app, parsed, "abandon",
        "Go on without data that only a lost cache device has, or without a lost backing device",
        "abandon 2f0c8a4e-90c1-4f0b-8a4f-5a4f0f3f9d11            (lists what would be lost)\n"
        "  ubcache abandon 2f0c8a4e-90c1-4f0b-8a4f-5a4f0f3f9d11 --discard-dirty --list lost.txt\n"
        "  ubcache abandon 2f0c8a4e-90c1-4f0b-8a4f-5a4f0f3f9d11 --discard-dirty --backing "
        "/dev/sdb");
    AbandonOptions& options = parsed.abandon;
    sub->add_option("uuid", options.uuid, "Uuid of the backing device (see ubcache show)")
        ->required();
    sub->add_flag("--discard-dirty", options.discard,
                  "Give the data up; without this they are only listed");
    sub->add_option("--list", options.list,
                    "Write what is lost to this new file, - for standard output (default: "
                    "ubcache-lost-UUID.txt)");
    sub->add_option("--backing", options.backing,
                    "No daemon runs and the cache device is gone for good: change this backing "
                    "device itself");
    sub->callback([&parsed] { parsed.status = abandon_command(parsed.client, parsed.abandon); });
}

void add_daemon_commands(CLI::App& app, Parsed& parsed) {
    CLI::App* status =
        add_client(app, parsed, "status", "Show sets, volumes, hits, dirty data", "status");
    status->callback([&parsed] { parsed.status = status_command(parsed.client); });

    CLI::App* stop =
        add_client(app, parsed, "stop", "Stop the daemon in an orderly way", "stop --flush");
    stop->add_flag("--flush", parsed.flag, "Write all dirty data back first");
    stop->callback([&parsed] { parsed.status = stop_command(parsed.client, parsed.flag); });

    CLI::App* gc = add_client(app, parsed, "gc", "Collect garbage now", "gc");
    gc->callback([&parsed] { parsed.status = gc_command(parsed.client); });
}

std::vector<std::string> command_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands(nullptr)) {
        names.push_back(command->get_name());
    }
    return names;
}

int unknown_command(const std::string& word, const std::vector<std::string>& names) {
    return complain(fmt::format("unknown command {}{} (see ubcache --help)", word,
                                did_you_mean(near_words(word, names))));
}

// What was wrong with the words of `command` (empty: before any command).
int usage_error(const CLI::ParseError& error, const std::string& command) {
    constexpr std::string_view kMissing = "1 required TEXT missing";
    std::string text = error.what();
    const std::size_t jargon = text.find(kMissing);
    if (jargon != std::string::npos) text.replace(jargon, kMissing.size(), "a value is missing");
    if (command.empty()) return complain(text + "; see ubcache --help");
    return complain(fmt::format("{0}: {1}; see ubcache {0} --help", command, text));
}

}  // namespace

int command_line(int argc, char** argv) {
    CLI::App app("bcache in user space: an SSD cache for slow block devices", "ubcache");
    app.require_subcommand(1);
    app.set_version_flag("--version", "ubcache " UBCACHE_VERSION, "Print the version and exit");
    app.footer("Each command has a --help of its own, with an example.");
    Parsed parsed;
    parsed.client.control = default_control_path();
    parsed.program_name = argc > 0 ? argv[0] : nullptr;
    // main() takes care of it; here it only shows up in the list.
    app.add_subcommand("make", "Make devices or image files members of a cache set");
    add_show(app, parsed);
    add_serve(app, parsed);
    add_assemble(app, parsed);
    add_daemon_commands(app, parsed);
    add_get(app, parsed);
    add_set(app, parsed);
    add_config(app, parsed);
    add_volume_commands(app, parsed);
    add_abandon(app, parsed);

    const std::string first = argc > 1 ? argv[1] : "";
    const std::vector<std::string> names = command_names(app);
    const bool known = std::find(names.begin(), names.end(), first) != names.end();
    if (first.empty()) return complain("no command was given; see ubcache --help for the list");
    if (!known && first[0] != '-') return unknown_command(first, names);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        // Help and version, which are thrown as well.
        if (error.get_exit_code() == 0) return app.exit(error);
        return usage_error(error, known ? first : std::string());
    }
    return parsed.status;
}

}  // namespace uc::admin
