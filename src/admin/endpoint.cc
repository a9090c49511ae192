#include "admin/endpoint.h"

#include <fmt/format.h>
#include <grp.h>

#include <charconv>
#include <filesystem>

namespace uc::admin {

Outcome<Endpoint> parse_endpoint(const std::string& text, const char* option) {
    Endpoint endpoint;
    if (text.rfind("unix:", 0) == 0 || text.rfind('/', 0) == 0) {
        endpoint.path = text[0] == '/' ? text : text.substr(5);
        if (!endpoint.path.empty()) return endpoint;
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
            fmt::format("{} {}: use unix:PATH or HOST:PORT, e.g. localhost:10809", option, text));
    }
    return endpoint;
}

Outcome<gid_t> find_group(const std::string& text) {
    const group* const found = getgrnam(text.c_str());
    if (found != nullptr) return found->gr_gid;
    gid_t number = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end) return number;
    return tl::unexpected(fmt::format("--group {}: there is no such group", text));
}

Outcome<> check_parent(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    fs::path directory = fs::path(path).parent_path();
    if (directory.empty()) directory = ".";
    if (fs::is_directory(directory, error)) return {};
    if (!error && fs::exists(directory, error)) {
        return tl::unexpected(fmt::format("{} is not a directory", directory.string()));
    }
    const bool missing = !error || error == std::errc::no_such_file_or_directory;
    return tl::unexpected(
        missing
            ? fmt::format("the directory {} does not exist; create it first", directory.string())
            : fmt::format("the directory {}: {}", directory.string(), error.message()));
}

}  // namespace uc::admin
