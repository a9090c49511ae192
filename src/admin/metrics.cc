// All samples of a family stand together, as the formats demand; hence the loops over volumes
// inside the loops over metrics.
#include "admin/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "admin/attributes.h"
#include "admin/exposition.h"

namespace uc::admin {

namespace {

using Type = Exposition::Type;
using Stats = core::VolumeStats;

struct SetCounter {
    std::string_view name;
    std::string_view help;
    std::uint64_t (*get)(const core::SetStats& stats);
};

constexpr std::array kSetCounters{
    SetCounter{"cache_written_bytes", "Data written to the cache device",
               [](const core::SetStats& s) { return s.written_sectors * kSectorBytes; }},
    SetCounter{"btree_written_bytes", "Index nodes written to the cache device",
               [](const core::SetStats& s) { return s.btree_written_sectors * kSectorBytes; }},
    SetCounter{"metadata_written_bytes", "Journal and priority table written",
               [](const core::SetStats& s) { return s.metadata_written_sectors * kSectorBytes; }},
    SetCounter{"cache_io_errors", "I/O errors of the cache device",
               [](const core::SetStats& s) { return s.cache_io_errors; }},
    SetCounter{"journal_writes", "Journal entries written",
               [](const core::SetStats& s) { return s.journal_writes; }},
    SetCounter{"journal_keys", "Keys in those entries",
               [](const core::SetStats& s) { return s.journal_keys; }},
    SetCounter{"journal_reclaims", "Times that leaves were written to free space in the journal",
               [](const core::SetStats& s) { return s.journal_reclaims; }},
    SetCounter{"btree_node_reads", "Index nodes read",
               [](const core::SetStats& s) { return s.node_reads; }},
    SetCounter{"btree_node_writes", "Index nodes written, wholly or in part",
               [](const core::SetStats& s) { return s.node_writes; }},
    SetCounter{"btree_node_splits", "Index nodes split",
               [](const core::SetStats& s) { return s.node_splits; }},
    SetCounter{"gc_passes", "Garbage collections",
               [](const core::SetStats& s) { return s.gc_passes; }},
    SetCounter{"buckets_invalidated", "Buckets freed for reuse",
               [](const core::SetStats& s) { return s.buckets_invalidated; }},
};

struct VolumeCounter {
    std::string_view name;
    std::string_view help;
    std::uint64_t (*get)(const Stats& stats);
};

constexpr std::array kVolumeCounters{
    VolumeCounter{"read_bytes", "Read by users",
                  [](const Stats& s) { return s.read_sectors * kSectorBytes; }},
    VolumeCounter{"written_bytes", "Written by users",
                  [](const Stats& s) { return s.written_sectors * kSectorBytes; }},
    VolumeCounter{"flushes", "Flushes by users", [](const Stats& s) { return s.flushes; }},
    VolumeCounter{"discards", "Discards by users", [](const Stats& s) { return s.discards; }},
    VolumeCounter{"cache_hits", "Requests that the cache had",
                  [](const Stats& s) { return s.cache_hits; }},
    VolumeCounter{"cache_misses", "Requests that it had not, or not all of",
                  [](const Stats& s) { return s.cache_misses; }},
    VolumeCounter{"cache_bypass_hits", "Hits of requests that were to go past the cache",
                  [](const Stats& s) { return s.cache_bypass_hits; }},
    VolumeCounter{"cache_bypass_misses", "Misses of requests that were to go past the cache",
                  [](const Stats& s) { return s.cache_bypass_misses; }},
    VolumeCounter{"cache_miss_collisions", "Fills that lost against a write",
                  [](const Stats& s) { return s.cache_miss_collisions; }},
    VolumeCounter{"cache_read_races", "Reads that began anew because their bucket was reused",
                  [](const Stats& s) { return s.cache_read_races; }},
    VolumeCounter{"bypassed_bytes", "Went past the cache",
                  [](const Stats& s) { return s.bypassed_sectors * kSectorBytes; }},
    VolumeCounter{"filled_bytes", "Put into the cache after a miss",
                  [](const Stats& s) { return s.filled_sectors * kSectorBytes; }},
    VolumeCounter{"writeback_bytes", "Dirty data written back",
                  [](const Stats& s) { return s.writeback_sectors * kSectorBytes; }},
    VolumeCounter{"writeback_failed_extents", "Extents whose write-back failed and is tried again",
                  [](const Stats& s) { return s.writeback_keys_failed; }},
    VolumeCounter{"io_errors", "Requests that failed, or would have",
                  [](const Stats& s) { return s.io_errors; }},
};

// Attributes that are counters, and so among the ones above.
constexpr std::array<std::string_view, 8> kCountedElsewhere{"io_errors",
                                                            "written",
                                                            "btree_written",
                                                            "metadata_written",
                                                            "internal/reclaim",
                                                            "internal/cache_read_races",
                                                            "internal/writeback_keys_done",
                                                            "internal/writeback_keys_failed"};

bool is_gauge(const Attribute& attribute) {
    if (!attribute.readable() || !numeric(attribute)) return false;
    if (attribute.name.starts_with("stats_")) return false;
    return std::ranges::find(kCountedElsewhere, attribute.name) == kCountedElsewhere.end();
}

struct BaseUnit {
    std::string_view suffix;
    double factor = 1;
};

BaseUnit base_unit(const Attribute& attribute) {
    if (attribute.unit == "bytes") return {"_bytes", 1};
    if (attribute.unit == "sectors/s") return {"_bytes_per_second", kSectorBytes};
    if (attribute.unit == "percent") return {"_ratio", 1e-2};
    if (attribute.unit == "seconds") return {"_seconds", 1};
    if (attribute.unit == "milliseconds") return {"_seconds", 1e-3};
    if (attribute.unit == "microseconds") return {"_seconds", 1e-6};
    return {};
}

// "congested_read_threshold_us" -> "ubcache_set_congested_read_threshold_seconds".
std::string gauge_name(const Attribute& attribute) {
    constexpr std::array<std::string_view, 5> kUnits{"_us", "_ms", "_sec", "_seconds", "_percent"};
    constexpr std::array<std::string_view, 3> kScopes{"set", "cache", "volume"};
    std::string name(attribute.name);
    std::ranges::replace(name, '/', '_');
    for (const std::string_view unit : kUnits) {
        if (!name.ends_with(unit)) continue;
        name.resize(name.size() - unit.size());
        break;
    }
    return fmt::format("ubcache_{}_{}{}", kScopes[static_cast<std::size_t>(attribute.scope)], name,
                       base_unit(attribute).suffix);
}

class Writer {
public:
    Writer(const ServedSet& served, MetricsFormat format)
        : served_(served),
          set_(*served.set()),
          out_(format),
          set_labels_{{"set", set_.superblock().set_uuid.to_string()}} {}

    std::string write() {
        set_state();
        for (const Attribute& attribute : attributes()) {
            if (is_gauge(attribute)) gauge(attribute);
        }
        for (const SetCounter& counter : kSetCounters) {
            out_.family(fmt::format("ubcache_set_{}", counter.name), Type::counter, counter.help);
            out_.sample(set_labels_, counter.get(set_.stats()));
        }
        for (const VolumeCounter& counter : kVolumeCounters) {
            out_.family(fmt::format("ubcache_volume_{}", counter.name), Type::counter,
                        counter.help);
            for (const ServedVolume& volume : served_.volumes()) {
                out_.sample(labels(volume), counter.get(volume.volume->stats()));
            }
        }
        volume_states();
        requests();
        latencies();
        return out_.finish();
    }

private:
    Labels labels(const ServedVolume& volume) const {
        Labels out = set_labels_;
        out.emplace_back("volume", volume.name);
        return out;
    }

    void set_state() {
        out_.family("ubcache_set_failed", Type::gauge,
                    "1: the cache device cannot be used; see ubcache status");
        out_.sample(set_labels_, std::uint64_t{set_.failure().empty() ? 0u : 1u});
        const core::BucketSurvey survey = set_.survey();
        out_.family("ubcache_set_buckets_ratio", Type::gauge, "Share of the buckets, by content");
        const auto share = [this](const char* content, std::uint32_t percent) {
            Labels with = set_labels_;
            with.emplace_back("content", content);
            out_.sample(with, percent / 100.0);
        };
        share("unused", survey.unused_percent);
        share("clean", survey.clean_percent);
        share("dirty", survey.dirty_percent);
        share("metadata", survey.metadata_percent);
    }

    void gauge(const Attribute& attribute) {
        out_.family(gauge_name(attribute), Type::gauge, attribute.meaning);
        const auto sample = [&](const Labels& labels, const AttributeTarget& target) {
            const double value = static_cast<double>(attribute.get(target).number);
            out_.sample(labels, value * base_unit(attribute).factor);
        };
        if (attribute.scope != Attribute::Scope::volume) {
            sample(set_labels_, served_.target(nullptr));
            return;
        }
        for (const ServedVolume& volume : served_.volumes()) {
            if (!attribute.applies_to(volume.volume)) continue;
            sample(labels(volume), served_.target(volume.volume));
        }
    }

    void volume_states() {
        out_.family("ubcache_volume_attached", Type::gauge, "1: the volume uses the cache");
        for (const ServedVolume& volume : served_.volumes()) {
            out_.sample(labels(volume), std::uint64_t{volume.volume->attached() ? 1u : 0u});
        }
        out_.family("ubcache_volume_bytes", Type::gauge, "Size of the volume");
        for (const ServedVolume& volume : served_.volumes()) {
            out_.sample(labels(volume), volume.volume->size_sectors() * kSectorBytes);
        }
    }

    void requests() {
        out_.family("ubcache_volume_requests", Type::counter,
                    "Requests, by why they were or were not cached");
        for (const ServedVolume& volume : served_.volumes()) {
            const Stats& stats = volume.volume->stats();
            for (std::size_t i = 0; i < core::kReasons; ++i) {
                request(volume, "read", i, stats.read_reasons[i]);
                request(volume, "write", i, stats.write_reasons[i]);
            }
        }
    }

    void request(const ServedVolume& volume, const char* op, std::size_t reason,
                 std::uint64_t count) {
        Labels with = labels(volume);
        with.emplace_back("op", op);
        with.emplace_back("reason", core::name_of(static_cast<core::Reason>(reason)));
        out_.sample(with, count);
    }

    void latencies() {
        out_.family("ubcache_volume_device_latency_seconds", Type::histogram,
                    "Device I/O that requests of users waited for");
        for (const ServedVolume& volume : served_.volumes()) {
            const Stats& stats = volume.volume->stats();
            const auto histogram = [&](const char* device, const char* op,
                                       const LatencyHistogram& latencies) {
                Labels with = labels(volume);
                with.emplace_back("device", device);
                with.emplace_back("op", op);
                out_.histogram(with, latencies);
            };
            histogram("cache", "read", stats.cache_read);
            histogram("cache", "write", stats.cache_write);
            histogram("backing", "read", stats.backing_read);
            histogram("backing", "write", stats.backing_write);
        }
    }

    const ServedSet& served_;
    core::CacheSet& set_;
    Exposition out_;
    Labels set_labels_;
};

}  // namespace

std::string metrics_text(const ServedSet& served, MetricsFormat format) {
    return Writer(served, format).write();
}

}  // namespace uc::admin
