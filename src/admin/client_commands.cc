#include "admin/client_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "admin/complaint.h"
#include "admin/control_client.h"
#include "admin/outcome.h"
#include "admin/progress.h"
#include "admin/size_text.h"
#include "admin/status.h"

namespace uc::admin {

namespace {

using nlohmann::json;

std::string member_text(const json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::uint64_t member_number(const json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

bool has_notes(const json& result) {
    const auto notes = result.find("notes");
    return notes != result.end() && notes->is_array() && !notes->empty();
}

void print_notes(const json& result) {
    const auto notes = result.find("notes");
    if (notes == result.end() || !notes->is_array()) return;
    for (const json& note : *notes) {
        if (note.is_string()) std::printf("%s\n", note.get<std::string>().c_str());
    }
}

// Sends `request`; prints progress on the way, and the result as JSON if that is wanted.
Outcome<json> ask(const ClientOptions& options, const json& request) {
    TRY(ControlClient client, ControlClient::connect(options.control));
    Progress progress(isatty(STDERR_FILENO) != 0);
    const auto on_progress = [&progress](const json& line) {
        if (!line.is_object()) return;
        progress.update(member_text(line, "volume"), member_number(line, "total_bytes"),
                        member_number(line, "remaining_bytes"));
    };
    TRY(json result, client.request(request, on_progress));
    if (options.json) {
        std::printf("%s\n", result.dump(2, ' ', false, json::error_handler_t::replace).c_str());
    }
    return result;
}

// For commands whose result is one sentence.
int ask_and_say(const ClientOptions& options, const json& request, const std::string& said) {
    const std::string command = member_text(request, "op");
    const Outcome<json> result = ask(options, request);
    if (!result) return complain(command, result.error());
    if (!options.json && !said.empty()) std::printf("%s\n", said.c_str());
    return 0;
}

struct NamedValue {
    std::string owner;
    std::string name;
    std::string value;
};

void take_values(const std::string& owner, const json& object, std::vector<NamedValue>& out) {
    for (const auto& [name, attribute] : object.items()) {
        if (attribute.is_object()) out.push_back({owner, name, member_text(attribute, "value")});
    }
}

// "set: bucket_size = 64.0k"; one value alone is printed as it is.
std::string attributes_text(const json& result) {
    std::vector<NamedValue> values;
    for (const char* owner : {"set", "cache"}) {
        if (result.contains(owner)) take_values(owner, result[owner], values);
    }
    if (result.contains("volumes")) {
        for (const auto& [name, volume] : result["volumes"].items()) {
            take_values(name, volume, values);
        }
    }
    if (values.size() == 1) return values.front().value + "\n";
    std::string out;
    for (NamedValue& each : values) {
        const bool lines = each.value.find('\n') != std::string::npos;
        out += fmt::format("{}: {} ={}{}\n", each.owner, each.name, lines ? "\n" : " ", each.value);
    }
    return out;
}

// For commands whose result is a new volume.
int ask_for_volume(const ClientOptions& options, const json& request) {
    const std::string command = member_text(request, "op");
    const Outcome<json> result = ask(options, request);
    if (!result) return complain(command, result.error());
    if (!options.json) {
        std::printf("%s\n", member_text(*result, "line").c_str());
        print_notes(*result);
    }
    return 0;
}

}  // namespace

int status_command(const ClientOptions& options) {
    const Outcome<json> result = ask(options, json{{"op", "status"}});
    if (!result) return complain("status", result.error());
    if (!options.json) std::fputs(status_text(*result).c_str(), stdout);
    return 0;
}

int get_command(const ClientOptions& options, const std::vector<std::string>& names,
                const std::string& volume) {
    json request{{"op", "get"}, {"names", names}};
    if (!volume.empty()) request["volume"] = volume;
    const Outcome<json> result = ask(options, request);
    if (!result) return complain("get", result.error());
    if (!options.json) std::fputs(attributes_text(*result).c_str(), stdout);
    return 0;
}

int set_command(const ClientOptions& options, const std::vector<std::string>& assignments,
                const std::string& volume) {
    json values = json::object();
    for (const std::string& assignment : assignments) {
        const std::size_t equals = assignment.find('=');
        if (equals == std::string::npos) {
            return complain_of_usage(
                "set", fmt::format("{}: write KEY=VALUE, e.g. cache_mode=writeback", assignment));
        }
        values[assignment.substr(0, equals)] = assignment.substr(equals + 1);
    }
    json request{{"op", "set"}, {"values", values}};
    if (!volume.empty()) request["volume"] = volume;
    const Outcome<json> result = ask(options, request);
    if (!result) return complain("set", result.error());
    if (!options.json) print_notes(*result);
    return 0;
}

int attach_command(const ClientOptions& options, const std::string& device) {
    // The daemon has another working directory.
    std::error_code ignored;
    const std::string path = std::filesystem::absolute(device, ignored).string();
    return ask_for_volume(options, json{{"op", "attach"}, {"device", path}});
}

int detach_command(const ClientOptions& options, const std::string& volume) {
    return ask_and_say(
        options, json{{"op", "detach"}, {"volume", volume}},
        volume + ": detached; its backing device holds all data now and no longer needs the cache");
}

int flush_command(const ClientOptions& options, const std::string& volume) {
    json request{{"op", "flush"}};
    if (!volume.empty()) request["volume"] = volume;
    const Outcome<json> result = ask(options, request);
    if (!result) return complain("flush", result.error());
    if (options.json) return 0;
    if (volume.empty() && has_notes(*result)) {
        std::printf("the dirty data of the volumes in service is on their backing devices, but:\n");
    } else if (volume.empty()) {
        std::printf("all data that was dirty is on the backing devices\n");
    } else {
        std::printf("%s: all data that was dirty is on the backing device\n", volume.c_str());
    }
    print_notes(*result);
    const std::uint64_t stays = member_number(*result, "flash_only_bytes");
    if (stays != 0) {
        std::printf("%s of cache-only volumes stay where they live, on the cache device\n",
                    pretty_size(stays).c_str());
    }
    return 0;
}

int stop_command(const ClientOptions& options, bool flush) {
    const Outcome<json> result = ask(options, json{{"op", "stop"}, {"flush", flush}});
    if (!result) return complain("stop", result.error());
    if (options.json) return 0;
    std::printf("stopped\n");
    print_notes(*result);
    return 0;
}

int create_volume_command(const ClientOptions& options, const std::string& size,
                          const std::string& label) {
    const std::optional<std::uint64_t> bytes = parse_size(size);
    if (!bytes) return complain_of_usage("create-volume", size + ": not a size; write e.g. 10G");
    return ask_for_volume(options,
                          json{{"op", "create-volume"}, {"size_bytes", *bytes}, {"label", label}});
}

int gc_command(const ClientOptions& options) {
    const Outcome<json> result = ask(options, json{{"op", "gc"}});
    if (!result) return complain("gc", result.error());
    if (!options.json) {
        std::printf("%llu buckets are unused now\n",
                    static_cast<unsigned long long>(member_number(*result, "unused_buckets")));
    }
    return 0;
}

}  // namespace uc::admin
