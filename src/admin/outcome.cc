#include "admin/outcome.h"

#include <fmt/format.h>

#include "base/error_text.h"

namespace uc::admin {

std::string explain(const std::string& what, const Error& error, const core::Report& report) {
    if (!report.refusal.empty()) {
        // The engine begins with the device, which often is what the caller would begin with.
        const bool named = report.refusal.rfind(what + ": ", 0) == 0;
        return named ? report.refusal : fmt::format("{}: {}", what, report.refusal);
    }
    return fmt::format("{}: {}", what, error_text(error));
}

}  // namespace uc::admin
