#include "admin/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace uc::admin {

void occupy_standard_streams() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        // Takes the lowest free number, which is this one. Not for writing, so that output is
        // still found to go nowhere.
        static_cast<void>(open("/dev/null", O_RDONLY));
    }
}

int finish_output(std::string_view program, int status) {
    errno = 0;
    const bool flushed = std::fflush(stdout) == 0;
    const int error = flushed ? 0 : errno;
    if (flushed && std::ferror(stdout) == 0) return status;
    std::string line = fmt::format("{}: cannot write to standard output", program);
    if (error != 0) line += fmt::format(": {}", std::strerror(error));
    std::fprintf(stderr, "%s\n", line.c_str());
    return status == 0 ? 1 : status;
}

}  // namespace uc::admin
