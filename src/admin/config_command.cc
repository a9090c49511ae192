#include "admin/config_command.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "admin/complaint.h"
#include "admin/control_client.h"
#include "admin/settings_file.h"

namespace uc::admin {

namespace {

using nlohmann::json;

struct Saved {
    std::string path;
    std::string text;
};

Outcome<Saved> settings_of_daemon(const ClientOptions& options, const std::string& path) {
    TRY(ControlClient client, ControlClient::connect(options.control));
    TRY(const json result, client.request(json{{"op", "get"}}, [](const json&) {}));
    const auto uuid = result.find("uuid");
    const bool known = uuid != result.end() && uuid->is_string();
    Saved out;
    out.path = path.empty() && known ? settings_path(uuid->get<std::string>()) : path;
    out.text = settings_text(result);
    if (out.path.empty()) return tl::unexpected(std::string("the daemon does not tell its set"));
    if (out.path != "-") {
        TRY_OK(write_settings(out.path, out.text));
    }
    return out;
}

}  // namespace

int config_defaults_command() {
    std::fputs(default_settings_text().c_str(), stdout);
    return 0;
}

int config_save_command(const ClientOptions& options, const std::string& path) {
    const Outcome<Saved> saved = settings_of_daemon(options, path);
    if (!saved) return complain("config", saved.error());
    if (saved->path == "-") {
        std::fputs(saved->text.c_str(), stdout);
    } else {
        std::printf("saved to %s\n", saved->path.c_str());
    }
    return 0;
}

}  // namespace uc::admin
