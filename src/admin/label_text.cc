#include "admin/label_text.h"

#include <algorithm>

namespace uc::admin {

Outcome<> check_label(std::string_view label) {
    constexpr std::size_t kLongest = 31;  // 32 bytes on disk, ended by a zero
    const auto refuse = [](const char* reason) { return tl::unexpected(std::string(reason)); };
    const auto control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
    if (label.size() > kLongest) return refuse("the label is longer than 31 characters");
    if (label.find('/') != std::string_view::npos) {
        return refuse("the label has a '/' in it; it becomes a file name, so choose another");
    }
    if (std::any_of(label.begin(), label.end(), control)) {
        return refuse("the label has a control character in it; use printable ones only");
    }
    if (label == "." || label == "..") {
        return refuse("the label means a directory; it becomes a file name, so choose another");
    }
    return {};
}

}  // namespace uc::admin
