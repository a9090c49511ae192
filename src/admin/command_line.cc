#include "admin/command_line.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "admin/show_command.h"

namespace uc::admin {

int command_line(int argc, char** argv) {
    CLI::App app("bcache in user space: an SSD cache for slow block devices", "ubcache");
    app.require_subcommand(1);
    app.add_subcommand("make", "Make devices or image files members of a cache set");
    int status = 0;

    CLI::App* show = app.add_subcommand("show", "Show the superblock of devices");
    std::vector<std::string> devices;
    bool json = false;
    show->add_option("device", devices, "Devices or image files")->required();
    show->add_flag("--json", json, "Print all fields as JSON");
    show->footer("Example:\n  ubcache show ssd.img disk.img");
    show->callback([&] { status = show_command(devices, json); });

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    return status;
}

}  // namespace uc::admin
