#include "core/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/labels.h"

namespace uc::core {

namespace {

constexpr std::string_view kPrefix = "bcache";

// Could be taken for a name that an index gives.
bool looks_numbered(std::string_view label) {
    if (label.substr(0, kPrefix.size()) != kPrefix) return false;
    const std::string_view rest = label.substr(kPrefix.size());
    return rest.empty() || rest.front() == '-' || (rest.front() >= '0' && rest.front() <= '9');
}

}  // namespace

const char* label_problem(std::string_view label) {
    const auto control = [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; };
    if (label.size() > kMaxLabel) return "a label has at most 31 characters";
    if (label.find('/') != std::string_view::npos) return "a label must not have a '/'";
    if (label == "." || label == "..") return "'.' and '..' are no labels";
    if (std::ranges::any_of(label, control)) return "a label must not have control characters";
    if (looks_numbered(label)) return "a label like 'bcache0' would be taken for a volume's number";
    return nullptr;
}

const ondisk::UuidEntry* owner_of_label(std::span<const ondisk::UuidEntry> table,
                                        std::string_view label, const ondisk::Uuid& self) {
    if (label.empty()) return nullptr;
    const auto it = std::ranges::find_if(table, [&](const ondisk::UuidEntry& entry) {
        return !entry.is_free() && entry.uuid != ondisk::kInvalidatedUuid && entry.uuid != self &&
               label_text(entry.label) == label;
    });
    return it == table.end() ? nullptr : &*it;
}

std::string volume_name(std::span<const ondisk::UuidEntry> table, const std::string& label,
                        Inode inode, const ondisk::Uuid& uuid) {
    const bool usable = !label.empty() && label_problem(label) == nullptr;
    if (usable && owner_of_label(table, label, uuid) == nullptr) return label;
    return fmt::format("{}{}", kPrefix, inode);
}

std::string stranger_name(const ondisk::Uuid& uuid) {
    return fmt::format("{}-{}", kPrefix, uuid.to_string().substr(0, 8));
}

}  // namespace uc::core
