#include "frontend/ublk_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace uc::frontend {

namespace fs = std::filesystem;

Result<std::unique_ptr<UblkExport>> UblkExport::open(io::UringReactor& reactor,
                                                     async::Executor& executor, std::string links,
                                                     Log log, std::string* message) {
    TRY(std::unique_ptr<UblkControl> control, UblkControl::open(reactor, message));
    return std::unique_ptr<UblkExport>(
        new UblkExport(reactor, executor, std::move(control), std::move(links), std::move(log)));
}

UblkExport::UblkExport(io::UringReactor& reactor, async::Executor& executor,
                       std::unique_ptr<UblkControl> control, std::string links, Log log)
    : reactor_(reactor),
      executor_(executor),
      control_(std::move(control)),
      links_(std::move(links)),
      log_(std::move(log)) {}

Task<Result<void>> UblkExport::set_volumes(std::vector<Export> volumes, std::string* message) {
    co_await changing_.lock();
    const async::Mutex::Guard guard(changing_);
    for (std::size_t index = devices_.size(); index > 0; --index) {
        const core::Volume* volume = devices_[index - 1]->volume();
        const bool stays = std::any_of(volumes.begin(), volumes.end(),
                                       [&](const Export& e) { return e.volume == volume; });
        if (!stays) co_await remove(index - 1);
    }
    Result<void> result;
    for (const Export& what : volumes) {
        if (!path(what.volume).empty()) continue;
        std::string reason;
        Result<void> added = co_await add(what, &reason);
        if (added) continue;
        result = added;
        *message = reason;
    }
    co_return result;
}

Task<Result<void>> UblkExport::add(Export what, std::string* message) {
    CO_TRY(std::unique_ptr<UblkDevice> device,
           co_await UblkDevice::start(reactor_, executor_, *control_, std::move(what), message));
    if (device->recovered()) {
        log_(fmt::format("{}: {} goes on where a daemon before left it", device->what().name,
                         device->path()));
    }
    make_links(*device);
    devices_.push_back(std::move(device));
    co_return Result<void>{};
}

Task<void> UblkExport::remove(std::size_t index) {
    const std::unique_ptr<UblkDevice> device = std::move(devices_[index]);
    devices_.erase(devices_.begin() + static_cast<std::ptrdiff_t>(index));
    const bool left = co_await device->stop();
    if (!left) {
        remove_links(*device);
        co_return;
    }
    log_(fmt::format("{}: {} is in use and stays; its requests wait until the set is served again",
                     device->what().name, device->path()));
}

Task<void> UblkExport::stop() {
    co_await changing_.lock();
    const async::Mutex::Guard guard(changing_);
    while (!devices_.empty()) {
        co_await remove(devices_.size() - 1);
    }
}

std::string UblkExport::path(const core::Volume* volume) const {
    for (const auto& device : devices_) {
        if (device->volume() == volume) return device->path();
    }
    return {};
}

std::vector<std::string> UblkExport::links_of(const Export& what) const {
    std::vector<std::string> links{links_ + "/by-uuid/" + what.uuid};
    // (A label may have characters that no path can.)
    const bool usable = !what.label.empty() && what.label.find('/') == std::string::npos &&
                        what.label != "." && what.label != "..";
    if (usable) links.push_back(links_ + "/by-label/" + what.label);
    return links;
}

void UblkExport::make_links(const UblkDevice& device) {
    for (const std::string& link : links_of(device.what())) {
        std::error_code error;
        const fs::path path(link);
        fs::create_directories(path.parent_path(), error);
        if (!error) {
            fs::remove(path, error);
            fs::create_symlink(device.path(), path, error);
        }
        if (error) log_(fmt::format("{}: cannot be made: {}", link, error.message()));
    }
    // Where udev runs, it looks at the device once more and makes the links its own (rules in
    // packaging/udev): systemd waits only for names that it has from udev.
    std::ofstream event("/sys/class/block/" + fs::path(device.path()).filename().string() +
                        "/uevent");
    event << "change";
}

void UblkExport::remove_links(const UblkDevice& device) {
    for (const std::string& link : links_of(device.what())) {
        std::error_code error;
        // Another set's volume may have the same label.
        if (fs::read_symlink(link, error) == device.path()) fs::remove(link, error);
    }
}

}  // namespace uc::frontend
