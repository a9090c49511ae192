#include "base/error_text.h"

#include <fmt/format.h>

#include <cstring>

namespace uc {

std::string error_text(const Error& error) {
    std::string text = *error.what ? error.what : name_of(error.code);
    if (error.sys != 0) text += fmt::format(": {}", std::strerror(error.sys));
    return text;
}

}  // namespace uc
