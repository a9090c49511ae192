#include "admin/show_command.h"

#include <fmt/format.h>
#include <getopt.h>

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "admin/block_file.h"
#include "admin/device_identity.h"
#include "admin/size_text.h"
#include "admin/super_show.h"
#include "ondisk/superblock.h"

namespace uc::admin {

namespace {

using nlohmann::json;

// What the tools read: a device may end before the superblock's 4096 bytes do.
constexpr std::size_t kToolSuperblockBytes = 2256;

constexpr const char* kUsage = "Usage: bcache-super-show [-f] <device>\n";

struct LoadFailure {
    std::string text;
    bool opened = false;
};

struct Loaded {
    std::vector<std::byte> bytes;
    std::uint64_t device_bytes = 0;
};

// The same, but with what it is and what is expected.
std::string why_not_loaded(const std::string& path, const LoadFailure& failure) {
    const std::string unfit = unfit_reason(path);
    if (!unfit.empty()) return unfit;
    std::string holder;
    const Result<BlockFile> file = BlockFile::open(path, BlockFile::Access::read, &holder);
    if (!file) return std::string("cannot be opened: ") + std::strerror(file.error().sys);
    if (file->size_bytes() >= ondisk::kSuperblockBytes * 2) return failure.text;
    const std::string size =
        file->size_bytes() == 0 ? "is empty" : "has only " + pretty_size(file->size_bytes());
    return size + "; a bcache superblock lies 4 KiB behind the start of a device";
}

tl::expected<Loaded, LoadFailure> load(const std::string& path) {
    std::string holder;
    Result<BlockFile> file = BlockFile::open(path, BlockFile::Access::read, &holder);
    if (!file) {
        const char* reason = std::strerror(file.error().sys);
        return tl::unexpected(
            LoadFailure{fmt::format("Can't open dev {}: {}", path, reason), false});
    }
    Loaded loaded;
    loaded.device_bytes = file->size_bytes();
    loaded.bytes.resize(ondisk::kSuperblockBytes);
    const Result<std::size_t> got =
        file->read(ondisk::kSuperblockSector * kSectorBytes, loaded.bytes);
    if (!got || *got < kToolSuperblockBytes) {
        return tl::unexpected(LoadFailure{"Couldn't read", true});
    }
    return loaded;
}

// The first reason for which the kernel and ubcache would refuse it; empty if none.
std::string fault_of(const Loaded& loaded) {
    const auto sb = ondisk::decode_superblock(loaded.bytes, loaded.device_bytes / kSectorBytes, 1);
    return sb ? std::string() : std::string(sb.error().what);
}

json as_json(const std::string& path, const Loaded& loaded) {
    const ondisk::Superblock sb = ondisk::parse_superblock(loaded.bytes);
    const ondisk::SuperblockSums sums = ondisk::superblock_sums(loaded.bytes);
    const bool magic = ondisk::has_superblock_magic(loaded.bytes);
    json out{{"device", path}, {"device_bytes", loaded.device_bytes}, {"magic_ok", magic}};
    out["fault"] = fault_of(loaded);
    if (!magic) return out;
    out["csum"] = fmt::format("{:016x}", sums.stored);
    out["csum_expected"] = fmt::format("{:016x}", sums.computed);
    out["version"] = sb.version;
    out["type"] = sb.is_cache() ? "cache" : sb.is_backing() ? "backing" : "unknown";
    out["uuid"] = sb.uuid.to_string();
    out["set_uuid"] = sb.set_uuid.to_string();
    out["label"] = sb.label_text();
    out["flags"] = sb.flags;
    out["seq"] = sb.seq;
    out["block_sectors"] = sb.block_size;
    out["last_mount"] = sb.last_mount;
    out["features"] = {{"compat", sb.feature_compat},
                       {"incompat", sb.feature_incompat},
                       {"ro_compat", sb.feature_ro_compat}};
    if (sb.is_backing()) {
        out["data_offset_sectors"] = sb.data_offset();
        out["cache_mode"] = static_cast<int>(sb.cache_mode()) < 4
                                ? json(ondisk::name_of(sb.cache_mode()))
                                : json(static_cast<int>(sb.cache_mode()));
        out["state"] = ondisk::name_of(sb.state());
    } else if (sb.is_cache()) {
        out["bucket_sectors"] = sb.bucket_sectors();
        out["buckets"] = sb.nbuckets_or_offset;
        out["first_bucket"] = sb.first_bucket;
        out["journal_buckets"] = sb.keys;
        out["nr_in_set"] = sb.nr_in_set;
        out["nr_this_dev"] = sb.nr_this_dev;
        out["synchronous"] = sb.sync();
        out["discard"] = sb.discard();
        out["replacement"] = static_cast<int>(sb.replacement()) < 3
                                 ? json(ondisk::name_of(sb.replacement()))
                                 : json(static_cast<int>(sb.replacement()));
    }
    return out;
}

void show_text(const std::string& path, const Loaded& loaded, bool heading) {
    if (heading) std::printf("%s, %s:\n", path.c_str(), pretty_size(loaded.device_bytes).c_str());
    const SuperShow shown = super_show(loaded.bytes, true);
    std::fputs(shown.out.c_str(), stdout);
    const ondisk::Superblock sb = ondisk::parse_superblock(loaded.bytes);
    if (shown.exit_code == 0 && (sb.version == 5 || sb.version == 6)) {
        std::printf("\ndev.uuid\t\t%s\ncset.uuid\t\t%s\n", sb.uuid.to_string().c_str(),
                    sb.set_uuid.to_string().c_str());
    }
    if (heading) std::printf("\n");
}

}  // namespace

int super_show_command(int argc, char** argv) {
    bool force = false;
    optind = 1;
    for (;;) {
        const int c = getopt(argc, argv, "f");
        if (c == -1) break;
        if (c != 'f') {
            std::fputs(kUsage, stderr);
            return 1;
        }
        force = true;
    }
    if (argc - optind != 1) {
        std::fputs(kUsage, stderr);
        return 1;
    }
    const auto loaded = load(argv[optind]);
    if (!loaded) {
        // Tool-compatible: the original prints the first of these on standard output.
        std::fprintf(loaded.error().opened ? stderr : stdout, "%s\n", loaded.error().text.c_str());
        return 2;
    }
    const SuperShow shown = super_show(loaded->bytes, force);
    std::fputs(shown.out.c_str(), stdout);
    std::fputs(shown.error.c_str(), stderr);
    return shown.exit_code;
}

int show_command(const std::vector<std::string>& devices, bool json_wanted) {
    int status = 0;
    json list = json::array();
    for (const std::string& path : devices) {
        // Opening a pipe would wait.
        const auto loaded = unfit_reason(path).empty()
                                ? load(path)
                                : tl::expected<Loaded, LoadFailure>(tl::unexpect, LoadFailure{});
        if (!loaded) {
            const std::string reason = why_not_loaded(path, loaded.error());
            std::fprintf(stderr, "ubcache show: %s: %s\n", path.c_str(), reason.c_str());
            list.push_back(json{{"device", path}, {"fault", reason}});
            status = 1;
            continue;
        }
        const std::string fault = fault_of(*loaded);
        if (!fault.empty()) status = 1;
        if (json_wanted) {
            list.push_back(as_json(path, *loaded));
            continue;
        }
        show_text(path, *loaded, devices.size() > 1);
        if (!fault.empty()) {
            std::fprintf(stderr, "ubcache show: %s: %s\n", path.c_str(), fault.c_str());
        }
    }
    if (json_wanted) {
        std::printf("%s\n", list.dump(2, ' ', false, json::error_handler_t::replace).c_str());
    }
    return status;
}

}  // namespace uc::admin
