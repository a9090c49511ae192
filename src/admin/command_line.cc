#include "admin/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "admin/abandon_command.h"
#include "admin/assemble_command.h"
#include "admin/attributes.h"
#include "admin/client_commands.h"
#include "admin/complaint.h"
#include "admin/config_command.h"
#include "admin/control_client.h"
#include "admin/serve_command_line.h"
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
    ServeWords serve;
    AbandonOptions abandon;
    AssembleOptions assemble;
};

void add_show(CLI::App& app, Parsed& parsed) {
    CLI::App* show = app.add_subcommand("show", "Show the superblock of devices");
    show->add_option("device", parsed.devices, "Devices or image files")->required();
    show->add_flag("--json", parsed.client.json, "Print all fields as JSON");
    show->footer("Example:\n  ubcache show ssd.img disk.img");
    show->callback([&parsed] { parsed.status = show_command(parsed.devices, parsed.client.json); });
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
        "abandon 2f0c8a4e-90c1-4f0b-8a4f-5a4f0f3f9d11            (tells what would be lost)\n"
        "  ubcache abandon 2f0c8a4e-90c1-4f0b-8a4f-5a4f0f3f9d11 --discard-dirty --list lost.txt\n"
        "  ubcache abandon 2f0c8a4e-90c1-4f0b-8a4f-5a4f0f3f9d11 --discard-dirty --backing "
        "/dev/sdb");
    AbandonOptions& options = parsed.abandon;
    sub->add_option("uuid", options.uuid, "Uuid of the backing device (see ubcache show)")
        ->required();
    sub->add_flag("--discard-dirty", options.discard,
                  "Give the data up; without this it is only told how much they are");
    sub->add_option("--list", options.list,
                    "Write what is lost to this new file, - for standard output (default with "
                    "--discard-dirty: ubcache-lost-UUID.txt)");
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
    return complain_of_usage({}, fmt::format("unknown command {}{} (see ubcache --help)", word,
                                             did_you_mean(near_words(word, names))));
}

// What was wrong with the words of `command` (empty: before any command).
int usage_error(const CLI::ParseError& error, const std::string& command) {
    constexpr std::string_view kMissing = "1 required TEXT missing";
    std::string text = error.what();
    const std::size_t jargon = text.find(kMissing);
    if (jargon != std::string::npos) text.replace(jargon, kMissing.size(), "a value is missing");
    const std::string help = command.empty() ? command : command + " ";
    return complain_of_usage(command, fmt::format("{}; see ubcache {}--help", text, help));
}

}  // namespace

int command_line(int argc, char** argv) {
    CLI::App app("bcache in user space: an SSD cache for slow block devices", "ubcache");
    app.require_subcommand(1);
    app.set_version_flag("--version", "ubcache " UBCACHE_VERSION, "Print the version and exit");
    app.footer("Each command has a --help of its own, with an example.");
    Parsed parsed;
    parsed.client.control = parsed.serve.control = default_control_path();
    parsed.serve.program_name = argc > 0 ? argv[0] : nullptr;
    // main() takes care of it; here it only shows up in the list.
    app.add_subcommand("make", "Make devices or image files members of a cache set");
    add_show(app, parsed);
    add_serve(app, parsed.serve, parsed.status);
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
    if (first.empty()) {
        return complain_of_usage({}, "no command was given; see ubcache --help for the list");
    }
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
