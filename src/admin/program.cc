#include "admin/program.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace uc::admin {

Outcome<> run_program(const std::vector<std::string>& words) {
    setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 0);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_t child = 0;
    const int error =
        posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
    if (error != 0) return tl::unexpected(fmt::format("{}: {}", words[0], std::strerror(error)));
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return tl::unexpected(fmt::format("{}: {}", words[0], std::strerror(errno)));
        }
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    if (WIFSIGNALED(status)) {
        return tl::unexpected(fmt::format("{}: killed by signal {}", words[0], WTERMSIG(status)));
    }
    return tl::unexpected(fmt::format("{}: exit status {}", words[0], WEXITSTATUS(status)));
}

}  // namespace uc::admin
