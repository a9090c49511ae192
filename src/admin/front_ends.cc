#include "admin/front_ends.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "admin/busy_retry.h"

namespace uc::admin {

namespace {

// Labels may have any characters; the ones that stand for themselves in a URI are few.
std::string uri_text(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        const bool plain = letter || (c >= '0' && c <= '9') ||
                           std::string_view("-._~/").find(c) != std::string_view::npos;
        if (plain) {
            out += c;
        } else {
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        }
    }
    return out;
}

constexpr const char* kLinks = "/dev/ubcache";

}  // namespace

FrontEnds::FrontEnds(async::Executor& executor, io::UringReactor& reactor, FrontEndOptions options,
                     Log log)
    : executor_(executor),
      reactor_(reactor),
      options_(std::move(options)),
      log_(std::move(log)),
      serving_(executor) {}

Outcome<> FrontEnds::check() const {
    if (!options_.nbd.empty()) {
        TRY(const Endpoint endpoint, parse_endpoint(options_.nbd));
        const Outcome<> there = endpoint.path.empty() ? Outcome<>() : check_parent(endpoint.path);
        if (!there) {
            return tl::unexpected(fmt::format("--nbd {}: {}", options_.nbd, there.error()));
        }
    }
    // (The directory itself may be a mount that a dead daemon left behind, and then cannot be
    // looked at.)
    if (options_.fuse.empty()) return {};
    const Outcome<> there = check_parent(std::filesystem::path(options_.fuse).has_filename()
                                             ? options_.fuse
                                             : options_.fuse.substr(0, options_.fuse.size() - 1));
    if (!there) return tl::unexpected(fmt::format("--fuse {}: {}", options_.fuse, there.error()));
    return {};
}

Task<Outcome<>> FrontEnds::start(std::vector<frontend::Export> exports) {
    if (!options_.automatic.empty()) choose();
    if (!options_.nbd.empty()) {
        CO_OK(co_await start_nbd());
    }
    if (!options_.fuse.empty()) {
        CO_OK(co_await start_fuse());
    }
    if (nbd_) nbd_->set_exports(exports);
    if (fuse_) fuse_->set_volumes(exports);
    if (options_.ublk) {
        CO_OK(co_await start_ublk(exports));
    }
    if (nbd_) serving_.spawn(nbd_->serve());
    if (fuse_) serving_.spawn(watch_fuse(fuse_->serve()));
    co_return Outcome<>();
}

// Block devices first: they are what how-tos speak of, and they outlive a killed daemon.
void FrontEnds::choose() {
    std::string reason;
    auto opened = frontend::UblkExport::open(reactor_, executor_, kLinks, log_, &reason);
    const std::string& under = options_.automatic;
    if (opened) {
        ublk_ = std::move(*opened);
        options_.ublk = true;
        log_("exports: block devices (ublk); they have links in /dev/ubcache");
    } else if (access("/dev/fuse", R_OK | W_OK) == 0) {
        options_.fuse = under + "/volumes";
        log_(
            fmt::format("exports: files in {}, for ublk is not there ({}); 'losetup -f --show "
                        "--direct-io=on FILE' makes a block device of one",
                        options_.fuse, reason));
    } else {
        options_.nbd = "unix:" + under + "/nbd.sock";
        log_(
            fmt::format("exports: NBD on {}/nbd.sock, for ublk is not there ({}), and neither is "
                        "/dev/fuse",
                        under, reason));
    }
}

Task<void> FrontEnds::stop() {
    stopping_ = true;
    if (nbd_) nbd_->stop();
    if (fuse_) fuse_->stop();
    if (ublk_) co_await ublk_->stop();
    co_await serving_.drained();
    ublk_.reset();
    fuse_.reset();
    nbd_.reset();
}

void FrontEnds::set_exports(const std::vector<frontend::Export>& exports) {
    if (nbd_) nbd_->set_exports(exports);
    if (fuse_) fuse_->set_volumes(exports);
    if (ublk_) serving_.spawn(update_ublk(exports));
}

Result<std::unique_ptr<frontend::NbdServer>> FrontEnds::listen(const Endpoint& endpoint) {
    if (!endpoint.path.empty()) {
        return frontend::NbdServer::listen_unix(reactor_, executor_, endpoint.path, options_.group,
                                                log_);
    }
    const auto reach =
        options_.nbd_anywhere ? frontend::Reach::anywhere : frontend::Reach::loopback;
    return frontend::NbdServer::listen_tcp(reactor_, executor_, endpoint.host, endpoint.port,
                                           reach);
}

Task<Outcome<>> FrontEnds::start_nbd() {
    CO_TRY(const Endpoint endpoint, parse_endpoint(options_.nbd));
    const BusyRetry retry(reactor_);
    while (!nbd_) {
        auto server = listen(endpoint);
        if (server) {
            nbd_ = std::move(*server);
        } else if (retry.worthwhile(server.error())) {
            co_await retry.pause();
        } else {
            const bool far = endpoint.path.empty() && server.error().code == Errc::invalid &&
                             !options_.nbd_anywhere;
            co_return tl::unexpected(explain("--nbd " + options_.nbd, server.error()) +
                                     (far ? "; --nbd-anywhere allows others" : ""));
        }
    }
    co_return Outcome<>();
}

Outcome<> FrontEnds::make_fuse_directory() const {
    constexpr mode_t kMode = 0755;
    if (mkdir(options_.fuse.c_str(), kMode) == 0 || errno == EEXIST) return {};
    return tl::unexpected(
        fmt::format("--fuse {}: cannot be created: {}", options_.fuse, std::strerror(errno)));
}

Task<Outcome<>> FrontEnds::start_fuse() {
    CO_OK(make_fuse_directory());
    const frontend::FuseOptions fuse_options;
    const BusyRetry retry(reactor_);
    while (!fuse_) {
        std::string message;
        auto mounted =
            frontend::FuseExport::mount(reactor_, executor_, options_.fuse, fuse_options, &message);
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

Task<Outcome<>> FrontEnds::start_ublk(std::vector<frontend::Export> exports) {
    std::string message;
    if (!ublk_) {
        auto opened = frontend::UblkExport::open(reactor_, executor_, kLinks, log_, &message);
        if (!opened) co_return tl::unexpected("--ublk: " + message);
        ublk_ = std::move(*opened);
    }
    Result<void> done = co_await ublk_->set_volumes(std::move(exports), &message);
    if (!done) co_return tl::unexpected("--ublk: " + message);
    co_return Outcome<>();
}

// Volumes have come or gone meanwhile.
Task<void> FrontEnds::update_ublk(std::vector<frontend::Export> exports) {
    std::string message;
    Result<void> done = co_await ublk_->set_volumes(std::move(exports), &message);
    if (!done) log_(message);
}

// Ends before stop() only if somebody has unmounted the directory.
Task<void> FrontEnds::watch_fuse(Task<void> serving) {
    co_await std::move(serving);
    if (stopping_) co_return;
    fuse_.reset();
    log_(fmt::format("{}: was unmounted by somebody; the volumes are no longer served as files{}",
                     options_.fuse, nbd_ ? "; NBD goes on" : " and nowhere else"));
}

// Clients have other working directories than ours, so they get absolute paths.
std::string FrontEnds::nbd_socket() const {
    const Outcome<Endpoint> endpoint = parse_endpoint(options_.nbd);
    if (!endpoint || endpoint->path.empty()) return {};
    return std::filesystem::absolute(endpoint->path).lexically_normal().string();
}

std::string FrontEnds::nbd_uri(const std::string& name) const {
    if (!nbd_) return {};
    const std::string socket = nbd_socket();
    if (!socket.empty()) return "nbd+unix:///" + uri_text(name) + "?socket=" + uri_text(socket);
    return nbd_->address() + "/" + uri_text(name);
}

std::string FrontEnds::file_path(const std::string& name) const {
    if (!fuse_) return {};
    return (std::filesystem::absolute(options_.fuse) / name).lexically_normal().string();
}

std::string FrontEnds::block_path(const core::Volume* volume) const {
    return ublk_ ? ublk_->path(volume) : std::string();
}

}  // namespace uc::admin
