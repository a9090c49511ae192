#include "admin/served_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "admin/attributes.h"
#include "admin/busy_retry.h"
#include "admin/format.h"
#include "admin/label_text.h"

namespace uc::admin {

namespace {

using Endpoint = ServedSet::Endpoint;

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

// A name that is good as an NBD export, as a file name, and on a terminal.
std::string plain_name(std::string name) {
    for (char& c : name) {
        if (c == '/' || static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '_';
    }
    if (name.empty() || name == "." || name == "..") name = "volume";
    return name;
}

Outcome<Endpoint> parse_endpoint(const std::string& text) {
    Endpoint endpoint;
    if (text.rfind("unix:", 0) == 0 || text.rfind('/', 0) == 0) {
        endpoint.path = text[0] == '/' ? text : text.substr(5);
        return endpoint;
    }
    const std::size_t colon = text.rfind(':');
    const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
    endpoint.host = colon == std::string::npos ? "localhost" : text.substr(0, colon);
    if (endpoint.host.size() > 2 && endpoint.host.front() == '[' && endpoint.host.back() == ']') {
        endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    }
    const char* end = port.data() + port.size();
    const auto parsed = std::from_chars(port.data(), end, endpoint.port);
    if (parsed.ec != std::errc() || parsed.ptr != end || port.empty()) {
        return tl::unexpected(
            fmt::format("--nbd {}: use unix:PATH or HOST:PORT, e.g. localhost:10809", text));
    }
    return endpoint;
}

}  // namespace

ServedSet::ServedSet(core::Env env, io::UringReactor& reactor, const ServeOptions& options)
    : env_(env), reactor_(reactor), options_(options), serving_(env.executor) {}

Task<Outcome<>> ServedSet::open() {
    CO_OK(check_set_options());
    CO_OK(check_devices());
    CO_TRY(cache_, co_await open_device(reactor_, options_.cache, options_.read_only));
    core::SetOptions set_options;
    set_options.read_only = options_.read_only;
    core::Report report;
    Result<std::unique_ptr<core::CacheSet>> opened =
        co_await core::CacheSet::open(env_, *cache_, set_options, report);
    if (!opened) {
        std::string text = explain(options_.cache, opened.error(), report);
        const std::string advice = advice_on_cache(options_.cache);
        if (!advice.empty()) text += ": " + advice;
        co_return tl::unexpected(text);
    }
    set_ = std::move(*opened);
    notes_.insert(notes_.end(), report.notes.begin(), report.notes.end());
    for (core::SetVolume* volume : set_->volumes()) publish(volume);

    const core::AttachMode mode =
        options_.attach ? core::AttachMode::attach : core::AttachMode::known;
    for (const std::string& path : options_.backings) {
        Outcome<std::string> added = co_await add_backing(path, mode);
        if (!added) co_return tl::unexpected(added.error());
    }
    if (volumes_.empty()) {
        // Not "the set is empty": devices that it knows may be missing, and their newest data be
        // here.
        notes_.push_back(fmt::format(
            "{}: no backing device was named and the set has no volume of its own; {}",
            options_.cache,
            set_->bucket_counts().dirty != 0
                ? "it HOLDS DIRTY DATA of a device that is missing: name it with --backing"
                : "add one with 'ubcache attach' or 'create-volume'"));
    }
    CO_OK(co_await apply_set_options());
    CO_OK(co_await start_front_ends());
    co_return Outcome<>();
}

Outcome<> ServedSet::check_devices() {
    devices_.meet(options_.cache);
    for (const std::string& path : options_.backings) {
        const std::string* other = devices_.meet(path);
        if (other != nullptr) return tl::unexpected(given_twice(path, *other));
    }
    return {};
}

Outcome<> ServedSet::check_set_options() {
    for (const auto& [name, text] : options_.set_options) {
        const Attribute* attribute = find_attribute(name);
        if (attribute == nullptr || !attribute->writable()) {
            return tl::unexpected(
                fmt::format("--set-option {}: no attribute that can be set", name));
        }
        Outcome<AttributeValue> value = parse_value(*attribute, text);
        if (!value) {
            return tl::unexpected(fmt::format("--set-option {}: {}", name, value.error()));
        }
        set_options_.emplace_back(attribute, std::move(*value));
        if (name == "label") notes_.emplace_back(kLabelNote);
    }
    return {};
}

Task<Outcome<>> ServedSet::apply_set_options() {
    for (const auto& [attribute, value] : set_options_) {
        const bool per_volume = attribute->scope == Attribute::Scope::volume;
        const std::size_t times = per_volume ? volumes_.size() : 1;
        for (std::size_t i = 0; i < times; ++i) {
            const AttributeTarget target{set_.get(), per_volume ? volumes_[i].volume : nullptr};
            Result<void> done = co_await write_attribute(*attribute, target, value);
            // A volume that lives on the cache alone has no cache mode.
            const bool has_none = !done && done.error().code == Errc::invalid && per_volume &&
                                  volumes_[i].volume->flash_only();
            if (!done && !has_none) {
                const std::string what = fmt::format("--set-option {}", attribute->name);
                co_return tl::unexpected(explain(what, done.error()));
            }
        }
    }
    co_return Outcome<>();
}

Result<std::unique_ptr<frontend::NbdServer>> ServedSet::listen(const Endpoint& endpoint) {
    if (!endpoint.path.empty()) {
        return frontend::NbdServer::listen_unix(reactor_, env_.executor, endpoint.path);
    }
    const auto reach =
        options_.nbd_anywhere ? frontend::Reach::anywhere : frontend::Reach::loopback;
    return frontend::NbdServer::listen_tcp(reactor_, env_.executor, endpoint.host, endpoint.port,
                                           reach);
}

Task<Outcome<>> ServedSet::start_nbd() {
    CO_TRY(const Endpoint endpoint, parse_endpoint(options_.nbd));
    const BusyRetry retry(reactor_);
    while (!nbd_) {
        auto server = listen(endpoint);
        if (server) {
            nbd_ = std::move(*server);
        } else if (retry.worthwhile(server.error())) {
            co_await retry.pause();
        } else {
            co_return tl::unexpected(explain("--nbd " + options_.nbd, server.error()));
        }
    }
    co_return Outcome<>();
}

Task<Outcome<>> ServedSet::start_fuse() {
    std::error_code ignored;
    std::filesystem::create_directories(options_.fuse, ignored);
    const frontend::FuseOptions fuse_options;
    const BusyRetry retry(reactor_);
    while (!fuse_) {
        std::string message;
        auto mounted = frontend::FuseExport::mount(reactor_, env_.executor, options_.fuse,
                                                   fuse_options, &message);
        if (mounted) {
            fuse_ = std::move(*mounted);
        } else if (retry.worthwhile(mounted.error())) {
            co_await retry.pause();
        } else {
            if (message.empty()) message = explain(options_.fuse, mounted.error());
            co_return tl::unexpected("--fuse: " + message);
        }
    }
    co_return Outcome<>();
}

Task<Outcome<>> ServedSet::start_front_ends() {
    if (!options_.nbd.empty()) {
        CO_OK(co_await start_nbd());
    }
    if (!options_.fuse.empty()) {
        CO_OK(co_await start_fuse());
    }
    update_exports();
    if (nbd_) serving_.spawn(nbd_->serve());
    if (fuse_) serving_.spawn(fuse_->serve());
    co_return Outcome<>();
}

Task<Outcome<>> ServedSet::stop() {
    stopping_ = true;
    if (nbd_) nbd_->stop();
    if (fuse_) fuse_->stop();
    co_await serving_.drained();
    fuse_.reset();
    nbd_.reset();
    if (!set_) co_return Outcome<>();
    Result<void> stopped = co_await set_->stop();
    if (!stopped) co_return tl::unexpected(explain(options_.cache, stopped.error()));
    co_return Outcome<>();
}

Task<Outcome<std::string>> ServedSet::attach(std::string path) {
    if (stopping_) co_return tl::unexpected(std::string("the daemon is stopping"));
    const std::string* served = devices_.find(path);
    if (served != nullptr) {
        const bool same_name = std::filesystem::absolute(*served) == path;
        co_return tl::unexpected(path + ": is served already" +
                                 (same_name ? std::string() : ", as " + *served));
    }
    Outcome<std::string> added = co_await add_backing(path, core::AttachMode::attach);
    if (added) devices_.meet(path);
    co_return std::move(added);
}

Task<Outcome<std::string>> ServedSet::add_backing(std::string path, core::AttachMode mode) {
    CO_TRY(std::unique_ptr<io::FileDevice> device,
           co_await open_device(reactor_, path, options_.read_only));
    core::Report report;
    Result<core::SetVolume*> added = co_await set_->add_backing(*device, mode, report);
    notes_.insert(notes_.end(), report.notes.begin(), report.notes.end());
    if (!added) co_return tl::unexpected(explain(path, added.error(), report));
    backings_.push_back(std::move(device));
    publish(*added);
    co_return volumes_.back().name;
}

Task<Outcome<std::string>> ServedSet::create_volume(std::uint64_t bytes, std::string label) {
    if (stopping_) co_return tl::unexpected(std::string("the daemon is stopping"));
    const std::uint64_t sectors = bytes / kSectorBytes;
    Result<core::SetVolume*> created =
        co_await set_->create_flash_volume(sectors, std::move(label));
    if (!created) co_return tl::unexpected(explain("create-volume", created.error()));
    publish(*created);
    co_return volumes_.back().name;
}

void ServedSet::publish(core::SetVolume* volume) {
    volumes_.push_back({free_name(plain_name(volume->name())), volume});
    update_exports();
}

std::string ServedSet::free_name(std::string wanted) const {
    const auto taken = [this](const std::string& name) {
        return std::any_of(volumes_.begin(), volumes_.end(),
                           [&](const ServedVolume& v) { return v.name == name; });
    };
    std::string name = wanted;
    for (int i = 2; taken(name); ++i) name = fmt::format("{}-{}", wanted, i);
    return name;
}

void ServedSet::update_exports() {
    std::vector<frontend::Export> exports;
    for (const ServedVolume& served : volumes_) {
        const std::string& backing = served.volume->backing_name();
        exports.push_back({served.name, served.volume,
                           backing.empty() ? "flash-only volume" : "cached " + backing});
    }
    if (nbd_) nbd_->set_exports(exports);
    if (fuse_) fuse_->set_volumes(exports);
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
    if (!nbd_) return {};
    std::string uri = nbd_->address();
    const std::size_t query = uri.find('?');
    std::string path = uri.substr(0, query);
    if (path.empty() || path.back() != '/') path += '/';
    path += volume.name;
    return query == std::string::npos ? path : path + uri.substr(query);
}

std::string ServedSet::file_path(const ServedVolume& volume) const {
    return fuse_ ? (std::filesystem::path(options_.fuse) / volume.name).string() : std::string();
}

}  // namespace uc::admin
