#include "admin/absent_devices.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "admin/size_text.h"

namespace uc::admin {

std::vector<std::string> absent_dirty_notes(const core::CacheSet& set, const std::string& cache) {
    std::vector<std::string> notes;
    for (const core::AbsentDevice& device : set.absent_devices()) {
        if (device.dirty_sectors == 0) continue;
        const std::string uuid = device.uuid.to_string();
        const std::string label = device.label.empty() ? "" : fmt::format(" ({})", device.label);
        notes.push_back(fmt::format(
            "{}: it HOLDS DIRTY DATA of a device that is missing: {} of {}{}, which "
            "are nowhere else; bring the device and name it with --backing or 'ubcache "
            "attach', or, if it is gone for good, see 'ubcache abandon {}'",
            cache, pretty_size(device.dirty_sectors * kSectorBytes), uuid, label, uuid));
    }
    return notes;
}

nlohmann::json absent_json(const core::CacheSet& set) {
    nlohmann::json list = nlohmann::json::array();
    for (const core::AbsentDevice& device : set.absent_devices()) {
        nlohmann::json entry{{"dirty_bytes", device.dirty_sectors * kSectorBytes}};
        entry["uuid"] = device.uuid.to_string();
        entry["label"] = device.label;
        list.push_back(std::move(entry));
    }
    return list;
}

}  // namespace uc::admin
