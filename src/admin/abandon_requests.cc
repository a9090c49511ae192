#include "admin/abandon_requests.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

namespace uc::admin {

namespace {

using nlohmann::json;

constexpr std::size_t kRangesInALine = 500;

Outcome<ondisk::Uuid> parse_uuid(const ServedSet& served, const std::string& text) {
    const ServedVolume* volume = served.find(text);
    if (volume != nullptr) return volume->volume->uuid();
    const std::optional<ondisk::Uuid> uuid = ondisk::Uuid::parse(text);
    if (uuid && !uuid->is_zero()) return *uuid;
    return tl::unexpected(text + ": neither the uuid of a backing device nor the name of a volume");
}

std::string ranges_line(std::span<const core::SectorRange> ranges) {
    json list = json::array();
    for (const core::SectorRange& range : ranges) {
        list.push_back(
            json::array({range.from * kSectorBytes, (range.to - range.from) * kSectorBytes}));
    }
    json line;
    line["progress"]["ranges"] = std::move(list);
    return line.dump();
}

json listed(ondisk::Uuid uuid, const core::DirtyRanges& found) {
    json result;
    result["uuid"] = uuid.to_string();
    result["dirty_bytes"] = found.dirty_sectors * kSectorBytes;
    result["complete"] = found.complete;
    return result;
}

json given_up(ondisk::Uuid uuid, bool cache_gone) {
    json result;
    result["uuid"] = uuid.to_string();
    result["goes_on"] = cache_gone ? "volume" : "set";
    return result;
}

}  // namespace

Task<Outcome<json>> list_dirty(ServedSet& served, std::string uuid, ControlReply& reply) {
    CO_TRY(const ondisk::Uuid wanted, parse_uuid(served, uuid));
    Result<core::DirtyRanges> found = co_await served.set()->dirty_ranges(wanted);
    if (!found) co_return tl::unexpected(explain(uuid, found.error()));
    const std::span<const core::SectorRange> ranges = found->ranges;
    for (std::size_t at = 0; at < ranges.size(); at += kRangesInALine) {
        const std::size_t count = std::min(kRangesInALine, ranges.size() - at);
        Result<void> sent = co_await reply.send(ranges_line(ranges.subspan(at, count)));
        if (!sent) co_return tl::unexpected(std::string("the client is gone"));
    }
    co_return listed(wanted, *found);
}

Task<Outcome<json>> abandon(ServedSet& served, std::string uuid) {
    CO_TRY(const ondisk::Uuid wanted, parse_uuid(served, uuid));
    const ServedVolume* known = served.find(wanted.to_string());
    core::SetVolume* volume = known == nullptr ? nullptr : known->volume;
    Task<Result<void>> work =
        volume == nullptr ? served.set()->forget_device(wanted) : served.set()->abandon(*volume);
    Result<void> done = co_await std::move(work);
    if (!done) co_return tl::unexpected(explain(uuid, done.error()));
    co_return given_up(wanted, volume != nullptr);
}

}  // namespace uc::admin
