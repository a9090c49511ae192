#include "admin/service_log.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>

namespace uc::admin {

namespace {

// systemd names the journal's end of the stream as DEVICE:INODE. A descriptor that was redirected
// since is another file.
bool is_journal(std::FILE* stream) {
    const char* const journal = std::getenv("JOURNAL_STREAM");
    struct stat info {};
    if (journal == nullptr || fstat(fileno(stream), &info) != 0) return false;
    return fmt::format("{}:{}", info.st_dev, info.st_ino) == journal;
}

}  // namespace

void log_line(Severity severity, const std::string& line) {
    std::FILE* const stream = severity == Severity::error ? stderr : stdout;
    const std::string prefix =
        is_journal(stream) ? fmt::format("<{}>", static_cast<int>(severity)) : std::string();
    std::fprintf(stream, "%s%s\n", prefix.c_str(), line.c_str());
}

}  // namespace uc::admin
