#include "admin/control_requests.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "admin/abandon_requests.h"
#include "admin/attributes.h"
#include "admin/get_requests.h"
#include "admin/label_text.h"
#include "admin/status.h"

namespace uc::admin {

namespace {

using nlohmann::json;

constexpr std::uint64_t kLargestVolume = std::numeric_limits<std::int64_t>::max();

// Labels come from disks and need not be UTF-8.
std::string one_line(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string text_member(const json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end()) return {};
    if (found->is_string()) return found->get<std::string>();
    return found->is_primitive() && !found->is_null() ? found->dump() : std::string();
}

bool flag_member(const json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_boolean() && found->get<bool>();
}

std::string failure_line(const std::string& error) {
    json answer{{"ok", false}};
    answer["error"] = error;
    return one_line(answer);
}

// Not a coroutine: braces and co_await do not go together (style guide, section 7).
json result_with(const char* name, std::string value) {
    json result = json::object();
    result[name] = std::move(value);
    return result;
}

json result_with_count(const char* name, std::uint64_t value) {
    json result = json::object();
    result[name] = value;
    return result;
}

json result_with_notes(const std::vector<std::string>& notes) {
    json result = json::object();
    if (!notes.empty()) result["notes"] = notes;
    return result;
}

// What does not take effect at once.
std::vector<std::string> notes_on(const json& values) {
    std::vector<std::string> notes;
    if (values.contains("label")) notes.emplace_back(kLabelNote);
    return notes;
}

json empty_result() {
    return json::object();
}

struct Assignment {
    const Attribute* attribute = nullptr;
    AttributeValue value;
};
using Assignments = std::vector<Assignment>;

Outcome<Assignments> checked_assignments(const json& values, bool of_volume) {
    Assignments assignments;
    for (const auto& [name, value] : values.items()) {
        const Attribute* attribute = find_attribute(name, of_volume);
        if (attribute == nullptr || !attribute->writable()) {
            return tl::unexpected(no_attribute(name));
        }
        Outcome<AttributeValue> parsed = parse_value(*attribute, text_member(values, name.c_str()));
        if (!parsed) return tl::unexpected(fmt::format("{}: {}", name, parsed.error()));
        assignments.push_back({attribute, std::move(*parsed)});
    }
    return assignments;
}

}  // namespace

ControlRequests::ControlRequests(async::Executor& executor, io::Clock& clock, ServedSet& served,
                                 std::function<void()> request_stop)
    : served_(served),
      request_stop_(std::move(request_stop)),
      write_back_(executor, clock, served) {}

std::string ControlRequests::refusal(const char* reason) {
    return failure_line(reason);
}

void ControlRequests::stopped(std::string failure) {
    is_stopped_ = true;
    stop_failure_ = std::move(failure);
    stopped_.notify();
}

Task<std::string> ControlRequests::handle(std::string text, ControlReply& reply) {
    const json request = json::parse(text, nullptr, false);
    if (!request.is_object()) co_return failure_line("a request is one JSON object on one line");
    if (served_.stopping()) co_return failure_line("the set is stopping");
    Outcome<json> result = co_await dispatch(request, reply);
    if (!result) co_return failure_line(result.error());
    json answer = json::object();
    answer["ok"] = true;
    answer["result"] = std::move(*result);
    co_return one_line(answer);
}

ControlRequests::Answer ControlRequests::dispatch(const json& request, ControlReply& reply) {
    const std::string op = text_member(request, "op");
    if (op == "status") co_return status_json(served_);
    if (op == "get") co_return co_await get(request);
    if (op == "set") co_return co_await set_attributes(request);
    if (op == "attach") co_return co_await attach(request);
    if (op == "detach") co_return co_await detach(request, reply);
    if (op == "flush") co_return co_await flush(request, reply);
    if (op == "stop") co_return co_await stop(request, reply);
    if (op == "create-volume") co_return co_await create_volume(request);
    if (op == "list-dirty") {
        co_return co_await list_dirty(served_, text_member(request, "uuid"), reply);
    }
    if (op == "abandon") co_return co_await abandon(request);
    if (op == "gc") co_return co_await collect_garbage();
    co_return tl::unexpected(fmt::format("unknown op \"{}\"", op));
}

Outcome<ServedVolume> ControlRequests::named_volume(const std::string& name) const {
    const ServedVolume* found = served_.find(name);
    if (found != nullptr) return *found;
    std::string names;
    for (const ServedVolume& served : served_.volumes()) {
        names += (names.empty() ? "" : ", ") + served.name;
    }
    return tl::unexpected(fmt::format("no volume {}; there are: {}", name, names));
}

ControlRequests::Answer ControlRequests::get(const json& request) {
    std::vector<std::string> names;
    const auto wanted = request.find("names");
    if (wanted != request.end() && wanted->is_array()) {
        for (const json& name : *wanted) {
            if (name.is_string()) names.push_back(name.get<std::string>());
        }
    }
    const std::string volume = text_member(request, "volume");
    if (volume.empty()) co_return get_attributes(served_, names, nullptr);
    CO_TRY(const ServedVolume served, named_volume(volume));
    co_return get_attributes(served_, names, &served);
}

ControlRequests::Answer ControlRequests::set_attributes(const json& request) {
    const auto values = request.find("values");
    if (values == request.end() || !values->is_object()) {
        co_return tl::unexpected(std::string("set: \"values\" is missing"));
    }
    const std::string volume = text_member(request, "volume");
    // All are checked before the first is changed.
    CO_TRY(const Assignments assignments, checked_assignments(*values, !volume.empty()));
    if (!volume.empty()) {
        CO_OK(named_volume(volume));
    } else if (values->contains("label") && served_.volumes().size() > 1) {
        co_return tl::unexpected(
            std::string("label: there are several volumes; name one with --volume"));
    }
    for (const Assignment& assignment : assignments) {
        CO_OK(co_await set_one(assignment.attribute, assignment.value, volume));
    }
    co_return result_with_notes(notes_on(*values));
}

Task<Outcome<>> ControlRequests::set_one(const Attribute* attribute, AttributeValue value,
                                         std::string volume) {
    const std::string name(attribute->name);
    AttributeTarget target = served_.target(nullptr);
    if (attribute->scope != Attribute::Scope::volume) {
        Result<void> done = co_await write_attribute(*attribute, target, value);
        if (!done) co_return tl::unexpected(explain(name, done.error()));
        co_return Outcome<>();
    }
    const std::vector<ServedVolume> volumes = served_.volumes();
    for (const ServedVolume& served : volumes) {
        const ServedVolume* wanted = volume.empty() ? &served : served_.find(volume);
        if (wanted == nullptr || wanted->volume != served.volume) continue;
        target.volume = served.volume;
        if (!attribute->applies_to(served.volume)) {
            // Of all volumes: those that have such an attribute.
            if (volume.empty() && volumes.size() > 1) continue;
            co_return tl::unexpected(
                fmt::format("{} of {}: volumes of this kind have none", name, served.name));
        }
        Result<void> done = co_await write_attribute(*attribute, target, value);
        if (!done) {
            const std::string what = fmt::format("{} of {}", name, served.name);
            co_return tl::unexpected(explain(what, done.error()));
        }
    }
    co_return Outcome<>();
}

ControlRequests::Answer ControlRequests::attach(const json& request) {
    const std::string path = text_member(request, "device");
    if (path.empty()) co_return tl::unexpected(std::string("attach: \"device\" is missing"));
    Outcome<std::string> name = co_await served_.attach(path);
    if (!name) co_return tl::unexpected(name.error());
    const Outcome<ServedVolume> volume = named_volume(*name);
    json result = result_with("volume", *name);
    result["line"] = volume ? volume_line(served_, *volume) : *name;
    co_return std::move(result);
}

ControlRequests::Answer ControlRequests::detach(const json& request, ControlReply& reply) {
    CO_TRY(ServedVolume volume, named_volume(text_member(request, "volume")));
    CO_OK(co_await write_back_.detach(volume, reply));
    co_return result_with("volume", volume.name);
}

ControlRequests::Answer ControlRequests::abandon(const json& request) {
    // Nobody shall lose data by a request that was meant otherwise.
    if (!flag_member(request, "discard_dirty")) {
        co_return tl::unexpected(std::string("abandon: \"discard_dirty\" has to be true"));
    }
    co_return co_await admin::abandon(served_, text_member(request, "uuid"));
}

ControlRequests::Answer ControlRequests::flush(const json& request, ControlReply& reply) {
    const std::string name = text_member(request, "volume");
    if (name.empty()) {
        CO_OK(co_await write_back_.flush_all(reply));
        json result = result_with_count("flash_only_bytes", flash_only_bytes(served_));
        const std::vector<std::string> missing = served_.missing_device_notes();
        if (!missing.empty()) result["notes"] = missing;
        co_return std::move(result);
    }
    CO_TRY(ServedVolume volume, named_volume(name));
    CO_OK(co_await write_back_.flush(volume, reply));
    co_return empty_result();
}

ControlRequests::Answer ControlRequests::stop(const json& request, ControlReply& reply) {
    if (!flag_member(request, "flush")) {
        CO_OK(co_await wait_for_stop());
        co_return empty_result();
    }
    // From the flush to the end, so that the two have nothing between them.
    const DirtyingPause pause(served_.volumes());
    CO_OK(co_await write_back_.flush_all(reply));
    served_.write_back_at_end();
    const std::vector<std::string> missing = served_.missing_device_notes();
    CO_OK(co_await wait_for_stop());
    co_return result_with_notes(missing);
}

Task<Outcome<>> ControlRequests::wait_for_stop() {
    request_stop_();
    while (!is_stopped_) {
        co_await stopped_.wait();
    }
    if (!stop_failure_.empty()) co_return tl::unexpected(stop_failure_);
    co_return Outcome<>();
}

ControlRequests::Answer ControlRequests::create_volume(const json& request) {
    const auto size = request.find("size_bytes");
    const bool sound = size != request.end() && size->is_number_unsigned();
    const std::uint64_t bytes = sound ? size->get<std::uint64_t>() : 0;
    if (bytes < kSectorBytes) {
        co_return tl::unexpected(std::string("the size must be 512 bytes or more"));
    }
    if (bytes > kLargestVolume) {
        co_return tl::unexpected(std::string("the size must be below 8 EiB, as for any file"));
    }
    const std::string label = text_member(request, "label");
    CO_OK(check_label(label));
    Outcome<std::string> name = co_await served_.create_volume(bytes, label);
    if (!name) co_return tl::unexpected(name.error());
    const Outcome<ServedVolume> volume = named_volume(*name);
    json result = result_with("volume", *name);
    result["line"] = volume ? volume_line(served_, *volume) : *name;
    const std::string note = overcommit_note(served_);
    if (!note.empty()) result["notes"].push_back(note);
    co_return std::move(result);
}

ControlRequests::Answer ControlRequests::collect_garbage() {
    Result<void> done = co_await served_.set()->collect_garbage();
    if (!done) co_return tl::unexpected(explain("garbage collection", done.error()));
    co_return result_with_count("unused_buckets", served_.set()->bucket_counts().unused);
}

}  // namespace uc::admin
