// Formatting devices as members of a cache set: what make-bcache does (format section 8.8).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "ondisk/superblock.h"

namespace uc::admin {

struct FormatOptions {
    std::vector<std::string> caches;
    std::vector<std::string> backings;
    std::optional<std::uint32_t>
        bucket_sectors;  // not set: 1024, or (friendly) what suits the device
    std::optional<std::uint32_t> block_sectors;  // not set: greatest natural block of the devices
    std::uint64_t data_offset = ondisk::kDefaultDataOffset;
    std::optional<ondisk::Uuid> set_uuid;  // not set: random
    bool writeback = false;
    bool discard = false;
    ondisk::Replacement replacement = ondisk::Replacement::lru;
    bool wipe_bcache = false;  // overwrite a bcache superblock
    bool force = false;        // overwrite anything that nobody uses
    std::string label;
    // Only what bcache-tools 1.0.8 checks and writes. Otherwise also: sizes that the engine needs,
    // a bucket size that suits, and a cleared journal area.
    bool classic = false;
};

// Why nothing was written.
struct Refusal {
    enum class Kind : std::uint8_t {
        cannot_stat,
        cannot_open,
        in_use,
        too_short,   // has no room for a superblock
        has_bcache,  // `detail` is where it has dirty data; empty: it has none
        has_signature,
        block_above_bucket,
        too_few_buckets,  // classic: below 128; else 512 or fewer
        given_twice,      // `detail` is its other name
        unsuitable,       // `detail` is the whole reason
        io,
    };
    Kind kind = Kind::io;
    std::string path;
    std::string detail;
    int sys = 0;
    std::uint64_t buckets = 0;
};
std::string classic_text(const Refusal& refusal);   // as bcache-tools 1.0.8; may be empty
std::string friendly_text(const Refusal& refusal);  // one line: what, where, what to do

struct Formatted {
    std::string path;
    std::uint64_t device_bytes = 0;
    ondisk::Superblock superblock;
};

// Checks all devices, then writes all; caches come first in the result. Each is durable when this
// returns. On a refusal nothing was changed (unless Kind::io: a write failed).
tl::expected<std::vector<Formatted>, Refusal> format_devices(const FormatOptions& options);

// What to do about a cache device that is refused for having too few buckets, or for being shorter
// than its superblock says; empty if neither is what is wrong with it.
std::string advice_on_cache(const std::string& path);

}  // namespace uc::admin
