#include "admin/served_set.h"

#include <fmt/format.h>

#include <filesystem>

#include "admin/absent_devices.h"
#include "admin/alone.h"
#include "admin/attributes.h"
#include "admin/busy_retry.h"
#include "admin/format.h"
#include "admin/label_text.h"
#include "admin/memory_allowance.h"
#include "admin/own_mounts.h"
#include "io/buffer.h"

namespace uc::admin {

namespace {

Task<Outcome<std::unique_ptr<io::FileDevice>>> open_device(io::UringReactor& reactor,
                                                           std::string path, bool read_only) {
    io::OpenOptions options;
    options.read_only = read_only;
    const BusyRetry retry(reactor);
    for (;;) {
        std::string message;
        Result<std::unique_ptr<io::FileDevice>> device =
            io::FileDevice::open(reactor, path, options, &message);
        if (device) co_return std::move(*device);
        if (!retry.worthwhile(device.error())) {
            if (message.empty()) message = explain(path, device.error());
            co_return tl::unexpected(message);
        }
        co_await retry.pause();
    }
}

}  // namespace

ServedSet::ServedSet(core::Env env, io::UringReactor& reactor, const ServeOptions& options,
                     FrontEnds::Log print)
    : env_(env),
      reactor_(reactor),
      options_(options),
      print_(std::move(print)),
      front_ends_(env.executor, reactor, options.front_ends,
                  [this](const std::string& line) { log(line); }) {}

Task<Outcome<>> ServedSet::open() {
    CO_OK(check_set_options());
    CO_OK(check_devices());
    CO_OK(front_ends_.check());
    CO_TRY(std::shared_ptr<io::BlockDevice> cache, co_await open_cache());
    core::SetOptions set_options;
    set_options.read_only = options_.read_only;
    set_options.node_cache_bytes =
        node_cache_limit(set_options.node_cache_bytes, memory_allowance());
    core::Report report;
    const auto find = [this](const ondisk::Superblock& wanted, const std::string& name) {
        return find_device(wanted, name);
    };
    const auto tell = [this](const std::string& line) { log(line); };
    Result<std::unique_ptr<core::SteadySet>> opened =
        co_await core::SteadySet::open(env_, std::move(cache), set_options, find, tell, report);
    if (!opened) {
        std::string text = explain(options_.cache, opened.error(), report);
        const std::string advice = advice_on_cache(options_.cache);
        if (!advice.empty()) text += ": " + advice;
        co_return tl::unexpected(text);
    }
    set_ = std::move(*opened);
    notes_.insert(notes_.end(), report.notes.begin(), report.notes.end());
    CO_OK(co_await apply_set_options(nullptr));
    for (core::SetVolume* volume : set_->volumes()) {
        publish(volume);
        CO_OK(co_await apply_set_options(volume));
    }

    const core::AttachMode mode =
        options_.attach ? core::AttachMode::attach : core::AttachMode::known;
    for (const std::string& path : options_.backings) {
        Outcome<std::string> added = co_await add_backing(path, mode);
        if (!added) co_return tl::unexpected(added.error());
    }
    const std::vector<std::string> missing = missing_device_notes();
    notes_.insert(notes_.end(), missing.begin(), missing.end());
    if (missing.empty() && volumes_.empty()) {
        notes_.push_back(
            fmt::format("{}: no backing device was named and the set has no volume of its own; "
                        "add one with 'ubcache attach' or 'create-volume'",
                        options_.cache));
    }
    std::vector<frontend::Export> list = exports();
    Outcome<> started = co_await front_ends_.start(std::move(list));
    opened_ = true;
    co_return std::move(started);
}

Task<Outcome<std::shared_ptr<io::BlockDevice>>> ServedSet::open_cache() {
    if (options_.without_cache) co_return co_await go_without_cache(options_.backings);
    CO_TRY(std::shared_ptr<io::BlockDevice> cache,
           co_await open_device(reactor_, options_.cache, options_.read_only));
    co_return std::move(cache);
}

// The device may be back under the name that it had, or under one that the kernel chose anew.
Task<Result<core::SteadySet::Device>> ServedSet::find_device(const ondisk::Superblock& wanted,
                                                             const std::string& name) {
    const std::string by_uuid = "/dev/disk/by-uuid/" + wanted.uuid.to_string();
    const std::vector<std::string> paths{name, by_uuid};
    for (const std::string& path : paths) {
        io::OpenOptions options;
        Result<std::unique_ptr<io::FileDevice>> device =
            io::FileDevice::open(reactor_, path, options, nullptr);
        if (!device) continue;
        io::FileDevice& opened = **device;
        io::Buffer bytes(ondisk::kSuperblockBytes);
        const Result<void> read = co_await opened.read(ondisk::kSuperblockSector, bytes.span());
        if (!read || ondisk::parse_superblock(bytes.span()).uuid != wanted.uuid) continue;
        co_return core::SteadySet::Device(std::move(*device));
    }
    co_return fail(Errc::not_found, "there is no such device");
}

std::vector<std::string> ServedSet::missing_device_notes() const {
    return absent_dirty_notes(*set_, options_.cache);
}

Outcome<> ServedSet::check_devices() {
    if (!options_.cache.empty()) devices_.meet(options_.cache);
    for (const std::string& path : options_.backings) {
        const std::string* other = devices_.meet(path);
        if (other != nullptr) return tl::unexpected(given_twice(path, *other));
    }
    return {};
}

Outcome<> ServedSet::check_set_options() {
    for (const SetOption& option : options_.set_options) {
        const Attribute* attribute = find_attribute(option.name, option.of_volume);
        const std::string what = fmt::format("{} {}", option.origin, option.name);
        // A command is nothing to begin with.
        if (attribute == nullptr || !attribute->writable() || !attribute->readable()) {
            return tl::unexpected(fmt::format("{} {}", option.origin, no_attribute(option.name)));
        }
        Outcome<AttributeValue> value = parse_value(*attribute, option.value);
        if (!value) return tl::unexpected(fmt::format("{}: {}", what, value.error()));
        set_options_.push_back({&option, attribute, std::move(*value)});
        if (option.name == "label") notes_.emplace_back(kLabelNote);
    }
    return {};
}

// To the set if `volume` is null, else to that volume.
Task<Outcome<>> ServedSet::apply_set_options(core::SetVolume* volume) {
    for (const auto& [option, attribute, value] : set_options_) {
        const bool per_volume = attribute->scope == Attribute::Scope::volume;
        if (per_volume != (volume != nullptr)) continue;
        if (!attribute->applies_to(volume)) continue;
        const bool another = volume != nullptr && !option->volume.empty() &&
                             option->volume != volume->name() &&
                             option->volume != volume->uuid().to_string();
        if (another) continue;
        Result<void> done = co_await write_attribute(*attribute, target(volume), value);
        if (!done) {
            const std::string what = fmt::format("{} {}", option->origin, attribute->name);
            co_return tl::unexpected(explain(what, done.error()));
        }
    }
    co_return Outcome<>();
}

Task<Outcome<>> ServedSet::stop() {
    stopping_ = true;
    if (set_) set_->end_waits();
    co_await front_ends_.stop();
    if (!set_) co_return Outcome<>();
    Outcome<> rest;
    if (write_back_at_end_) {
        Outcome<> written = co_await write_back_rest();
        rest = std::move(written);
    }
    Result<void> stopped = co_await set_->stop();
    if (!stopped) co_return tl::unexpected(explain(options_.cache, stopped.error()));
    co_return rest;
}

Task<Outcome<>> ServedSet::write_back_rest() {
    for (const ServedVolume& served : volumes_) {
        if (served.volume->dirty_sectors() == 0 || served.volume->flash_only()) continue;
        Result<void> written = co_await served.volume->write_back_all();
        if (!written) co_return tl::unexpected(explain(served.name, written.error()));
    }
    co_return Outcome<>();
}

Outcome<> ServedSet::check_arrival(const std::string& path) const {
    if (stopping_) return tl::unexpected(std::string("the daemon is stopping"));
    if (!leads_into(path, options_.own_mounts)) return {};
    return tl::unexpected(path + ": is served by this daemon itself");
}

Task<Outcome<std::string>> ServedSet::attach(std::string path) {
    CO_OK(check_arrival(path));
    const std::string* served = devices_.find(path);
    const ServedVolume* const known = find(served != nullptr ? *served : path);
    if (known != nullptr && !known->volume->attached()) co_return co_await reattach(*known);
    if (served != nullptr) {
        const bool same_name = std::filesystem::absolute(*served) == path;
        co_return tl::unexpected(path + ": is served already" +
                                 (same_name ? std::string() : ", as " + *served));
    }
    Outcome<std::string> added = co_await add_backing(path, core::AttachMode::attach);
    if (added) devices_.meet(path);
    co_return std::move(added);
}

Task<Outcome<std::string>> ServedSet::join(std::string path) {
    CO_OK(check_arrival(path));
    Outcome<std::string> added = co_await add_backing(path, core::AttachMode::known);
    if (added) devices_.meet(path);
    co_return std::move(added);
}

Task<Outcome<std::string>> ServedSet::reattach(const ServedVolume& served) {
    const std::string name = served.name;
    core::Report report;
    Result<void> done = co_await set_->reattach(*served.volume, report);
    for (const std::string& note : report.notes) log(note);
    if (!done) co_return tl::unexpected(explain(name, done.error(), report));
    co_return name;
}

Task<Outcome<std::string>> ServedSet::add_backing(std::string path, core::AttachMode mode) {
    CO_TRY(std::shared_ptr<io::BlockDevice> device,
           co_await open_device(reactor_, path, options_.read_only));
    core::Report report;
    Result<core::SetVolume*> added = co_await set_->add_backing(std::move(device), mode, report);
    notes_.insert(notes_.end(), report.notes.begin(), report.notes.end());
    if (!added) co_return tl::unexpected(explain(path, added.error(), report));
    // Before its write-back begins.
    CO_OK(co_await apply_set_options(*added));
    publish(*added);
    co_return volumes_.back().name;
}

Task<Outcome<std::string>> ServedSet::create_volume(std::uint64_t bytes, std::string label) {
    if (stopping_) co_return tl::unexpected(std::string("the daemon is stopping"));
    const std::uint64_t sectors = bytes / kSectorBytes;
    Result<core::SetVolume*> created =
        co_await set_->create_flash_volume(sectors, std::move(label));
    if (!created) co_return tl::unexpected(explain("the new volume", created.error()));
    publish(*created);
    co_return volumes_.back().name;
}

void ServedSet::publish(core::SetVolume* volume) {
    volumes_.push_back({export_name(*volume), volume});
    label_changed();
}

void ServedSet::label_changed() {
    front_ends_.set_exports(exports());
}

// Without its set a volume has no name of its own, but file systems are looked for under the one
// that it has there.
std::string ServedSet::export_name(const core::SetVolume& volume) const {
    const std::string label = volume.label();
    const bool by_label = options_.without_cache && !label.empty() && find(label) == nullptr;
    return by_label ? label : volume.name();
}

std::vector<frontend::Export> ServedSet::exports() const {
    std::vector<frontend::Export> list;
    for (const ServedVolume& served : volumes_) {
        const std::string& backing = served.volume->backing_name();
        list.push_back({served.name, served.volume,
                        backing.empty() ? "flash-only volume" : "cached " + backing,
                        served.volume->uuid().to_string(), served.volume->label()});
    }
    return list;
}

const ServedVolume* ServedSet::find(const std::string& name) const {
    for (const ServedVolume& served : volumes_) {
        if (served.name == name || served.volume->backing_name() == name ||
            served.volume->uuid().to_string() == name) {
            return &served;
        }
    }
    return nullptr;
}

std::string ServedSet::nbd_uri(const ServedVolume& volume) const {
    return front_ends_.nbd_uri(volume.name);
}

std::string ServedSet::block_path(const ServedVolume& volume) const {
    return front_ends_.block_path(volume.volume);
}

std::string ServedSet::file_path(const ServedVolume& volume) const {
    return front_ends_.file_path(volume.name);
}

void ServedSet::log(const std::string& line) {
    notes_.push_back(line);
    if (opened_) print_(line);  // those of the opening are printed together
}

}  // namespace uc::admin
