#include "admin/outcome.h"

#include <fmt/format.h>

#include <cstring>

namespace uc::admin {

std::string explain(const std::string& what, const Error& error, const core::Report& report) {
    if (!report.refusal.empty()) {
        // The engine begins with the device, which often is what the caller would begin with.
        const bool named = report.refusal.rfind(what + ": ", 0) == 0;
        return named ? report.refusal : fmt::format("{}: {}", what, report.refusal);
    }
    std::string line = fmt::format("{}: {}", what, *error.what ? error.what : name_of(error.code));
    if (error.sys != 0) line += fmt::format(": {}", std::strerror(error.sys));
    return line;
}

}  // namespace uc::admin
