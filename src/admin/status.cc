#include "admin/status.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "admin/absent_devices.h"
#include "admin/attributes.h"
#include "admin/size_text.h"

namespace uc::admin {

namespace {

using nlohmann::json;

json reasons_json(const std::array<std::uint64_t, core::kReasons>& counts) {
    json out = json::object();
    for (std::size_t i = 0; i < core::kReasons; ++i) {
        out[core::name_of(static_cast<core::Reason>(i))] = counts[i];
    }
    return out;
}

json attributes_json(const AttributeTarget& target, Attribute::Scope scope) {
    json out = json::object();
    for (const Attribute& attribute : attributes()) {
        // Those of several lines are no use here, and `priority_stats` takes a while.
        const bool lines =
            attribute.name == "priority_stats" || attribute.name == "writeback_rate_debug";
        if (attribute.scope != scope || !attribute.readable() || lines ||
            !attribute.applies_to(target.volume)) {
            continue;
        }
        out[std::string(attribute.name)] = read_attribute(attribute, target);
    }
    return out;
}

json stats_json(const core::VolumeStats& s) {
    return {{"reads", s.reads},
            {"writes", s.writes},
            {"flushes", s.flushes},
            {"discards", s.discards},
            {"read_bytes", s.read_sectors * kSectorBytes},
            {"written_bytes", s.written_sectors * kSectorBytes},
            {"cache_hits", s.cache_hits},
            {"cache_misses", s.cache_misses},
            {"cache_bypass_hits", s.cache_bypass_hits},
            {"cache_bypass_misses", s.cache_bypass_misses},
            {"cache_miss_collisions", s.cache_miss_collisions},
            {"cache_read_races", s.cache_read_races},
            {"bypassed_bytes", s.bypassed_sectors * kSectorBytes},
            {"filled_bytes", s.filled_sectors * kSectorBytes},
            {"writeback_bytes", s.writeback_sectors * kSectorBytes},
            {"writeback_keys_done", s.writeback_keys_done},
            {"writeback_keys_failed", s.writeback_keys_failed},
            {"io_errors", s.io_errors},
            {"hit_ratio_percent", hit_ratio_percent(s)},
            {"read_reasons", reasons_json(s.read_reasons)},
            {"write_reasons", reasons_json(s.write_reasons)}};
}

json volume_json(const ServedSet& served, const ServedVolume& entry) {
    const core::SetVolume& volume = *entry.volume;
    json out{{"name", entry.name},
             {"uuid", volume.uuid().to_string()},
             {"flash_only", volume.flash_only()},
             {"backing", volume.backing_name()},
             {"label", volume.label()},
             {"size_bytes", volume.size_sectors() * kSectorBytes},
             {"state", ondisk::name_of(volume.state())},
             {"cache_mode", ondisk::name_of(volume.cache_mode())},
             {"dirty_bytes", volume.dirty_sectors() * kSectorBytes},
             {"read_only", volume.read_only()},
             {"writeback_failure", volume.writeback_trouble()},
             {"nbd", served.nbd_uri(entry)},
             {"file", served.file_path(entry)},
             {"block_device", served.block_path(entry)}};
    out["stats"] = stats_json(volume.stats());
    out["attributes"] = attributes_json(served.target(entry.volume), Attribute::Scope::volume);
    return out;
}

// What the volumes that live on the cache alone may grow to.
std::uint64_t flash_only_size(const ServedSet& served) {
    std::uint64_t sectors = 0;
    for (const ServedVolume& entry : served.volumes()) {
        if (entry.volume->flash_only()) sectors += entry.volume->size_sectors();
    }
    return sectors * kSectorBytes;
}

// All data buckets, whatever they hold now.
std::uint64_t data_capacity(core::CacheSet& set) {
    const core::CacheSet::BucketCounts buckets = set.bucket_counts();
    return (buckets.unused + buckets.clean + buckets.dirty) * set.superblock().bucket_sectors() *
           kSectorBytes;
}

json set_json(const ServedSet& served) {
    core::CacheSet& set = *served.set();
    const core::SetStats s = set.stats();
    const core::CacheSet::BucketCounts buckets = set.bucket_counts();
    json out{{"uuid", set.superblock().set_uuid.to_string()},
             {"cache", set.cache_name()},
             {"bucket_bytes", set.superblock().bucket_sectors() * kSectorBytes},
             {"in_use_percent", set.in_use_percent()},
             {"flash_only_bytes", flash_only_bytes(served)},
             {"flash_only_size_bytes", flash_only_size(served)},
             {"data_capacity_bytes", data_capacity(set)},
             {"read_only", served.read_only()},
             {"failure", set.failure()}};
    out["absent"] = absent_json(set);
    out["buckets"] = {{"unused", buckets.unused},
                      {"clean", buckets.clean},
                      {"dirty", buckets.dirty},
                      {"metadata", buckets.metadata}};
    out["stats"] = {{"journal_writes", s.journal_writes},
                    {"journal_flushes", s.journal_flushes},
                    {"journal_keys", s.journal_keys},
                    {"node_writes", s.node_writes},
                    {"node_reads", s.node_reads},
                    {"node_splits", s.node_splits},
                    {"node_merges", s.node_merges},
                    {"prio_writes", s.prio_writes},
                    {"prio_tables_rebuilt", s.prio_tables_rebuilt},
                    {"gc_passes", s.gc_passes},
                    {"buckets_invalidated", s.buckets_invalidated},
                    {"cache_io_errors", s.cache_io_errors}};
    const AttributeTarget target = served.target(nullptr);
    out["attributes"] = attributes_json(target, Attribute::Scope::set);
    out["cache_attributes"] = attributes_json(target, Attribute::Scope::cache);
    return out;
}

}  // namespace

json status_json(const ServedSet& served) {
    json volumes = json::array();
    for (const ServedVolume& entry : served.volumes()) {
        volumes.push_back(volume_json(served, entry));
    }
    json out{{"set", set_json(served)}};
    out["volumes"] = std::move(volumes);
    out["notes"] = served.notes();
    return out;
}

std::uint64_t flash_only_bytes(const ServedSet& served) {
    std::uint64_t sectors = 0;
    for (const ServedVolume& entry : served.volumes()) {
        if (entry.volume->flash_only()) sectors += entry.volume->dirty_sectors();
    }
    return sectors * kSectorBytes;
}

std::string overcommit_note(const ServedSet& served) {
    const std::uint64_t promised = flash_only_size(served);
    const std::uint64_t possible = data_capacity(*served.set());
    if (promised <= possible) return {};
    return fmt::format(
        "note: the volumes that live on the cache device alone may grow to {}, but it can hold {} "
        "at most; when it is full, writes to them fail",
        pretty_size(promised), pretty_size(possible));
}

std::string volume_line(const ServedSet& served, const ServedVolume& entry) {
    std::string line =
        fmt::format("{}: {}", entry.name, pretty_size(entry.volume->size_sectors() * kSectorBytes));
    const std::string uri = served.nbd_uri(entry);
    const std::string file = served.file_path(entry);
    if (!uri.empty()) line += ", NBD " + uri;
    if (!file.empty()) line += ", file " + file;
    const std::string block = served.block_path(entry);
    if (!block.empty()) line += ", block device " + block;
    return line;
}

}  // namespace uc::admin
