#include "admin/control_client.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace uc::admin {

namespace {

using nlohmann::json;

constexpr std::size_t kMaxAnswer = 16 << 20;

// Sets that are served from boot have their socket one level deeper. Where there is only one, it is
// what is meant.
std::string socket_at(const std::string& wanted) {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path standard(kDefaultControlPath);
    if (wanted != standard || fs::exists(standard, error)) return wanted;
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(standard.parent_path(), error)) {
        const fs::path socket = entry.path() / standard.filename();
        if (fs::exists(socket, error)) found.push_back(socket.string());
    }
    return found.size() == 1 ? found.front() : wanted;
}

}  // namespace

std::string default_control_path() {
    const char* path = std::getenv("UBCACHE_CONTROL");
    return path != nullptr && *path != '\0' ? path : kDefaultControlPath;
}

Outcome<ControlClient> ControlClient::connect(const std::string& wanted) {
    const std::string path = socket_at(wanted);
    sockaddr_un address{};
    if (path.size() >= sizeof address.sun_path) {
        return tl::unexpected(fmt::format("{}: the path is too long for a socket", path));
    }
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    ControlClient client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (client.fd_ < 0 ||
        ::connect(client.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return tl::unexpected(fmt::format(
            "no ubcache daemon answers on {} ({}); start one with: ubcache serve --cache SSD "
            "--backing DISK, or name its socket with --control",
            path, std::strerror(errno)));
    }
    return client;
}

ControlClient::ControlClient(ControlClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), received_(std::move(other.received_)) {}

ControlClient::~ControlClient() {
    if (fd_ >= 0) close(fd_);
}

Outcome<std::string> ControlClient::read_line() {
    for (;;) {
        const std::size_t end = received_.find('\n');
        if (end != std::string::npos) {
            std::string line = received_.substr(0, end);
            received_.erase(0, end + 1);
            return line;
        }
        std::array<char, 65536> chunk;
        const ssize_t got = recv(fd_, chunk.data(), chunk.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0 || received_.size() > kMaxAnswer) {
            return tl::unexpected(
                std::string("the daemon ended without an answer; see its output"));
        }
        received_.append(chunk.data(), static_cast<std::size_t>(got));
    }
}

Outcome<json> ControlClient::request(const json& request, const OnProgress& on_progress) {
    const std::string line = request.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    std::size_t sent = 0;
    while (sent < line.size()) {
        const ssize_t put = send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return tl::unexpected(std::string("the daemon has closed the connection"));
        sent += static_cast<std::size_t>(put);
    }
    for (;;) {
        TRY(const std::string text, read_line());
        const json answer = json::parse(text, nullptr, false);
        if (answer.is_object() && answer.contains("progress")) {
            if (on_progress) on_progress(answer["progress"]);
            continue;
        }
        if (answer.is_object() && answer.value("ok", json()) == true) {
            return answer.value("result", json::object());
        }
        const bool worded =
            answer.is_object() && answer.contains("error") && answer["error"].is_string();
        return tl::unexpected(worded ? answer["error"].get<std::string>()
                                     : std::string("the daemon's answer makes no sense"));
    }
}

}  // namespace uc::admin
