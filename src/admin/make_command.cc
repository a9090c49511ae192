// One command line for two tools. -C and -B are modes: devices after them are cache or backing
// devices, wherever the other options stand, so getopt in its "return in order" form parses both.
// The classic form goes on after an unknown option, as the original does; ours stops.
#include "admin/make_command.h"

#include <fmt/format.h>
#include <getopt.h>

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "admin/format.h"
#include "admin/label_text.h"
#include "admin/size_text.h"
#include "base/units.h"

namespace uc::admin {

namespace {

enum Option : int {
    opt_cset_uuid = 256,
    opt_writeback,
    opt_discard,
    opt_wipe_bcache,
    opt_force,
    opt_json,
};

constexpr std::array<option, 20> kOptions{{
    {"cache", no_argument, nullptr, 'C'},
    {"bdev", no_argument, nullptr, 'B'},
    {"bucket", required_argument, nullptr, 'b'},
    {"block", required_argument, nullptr, 'w'},
    {"writeback", no_argument, nullptr, opt_writeback},
    {"wipe-bcache", no_argument, nullptr, opt_wipe_bcache},
    {"discard", no_argument, nullptr, opt_discard},
    {"cache_replacement_policy", required_argument, nullptr, 'p'},
    {"cache-replacement-policy", required_argument, nullptr, 'p'},
    {"data_offset", required_argument, nullptr, 'o'},
    {"data-offset", required_argument, nullptr, 'o'},
    {"cset-uuid", required_argument, nullptr, opt_cset_uuid},
    {"help", no_argument, nullptr, 'h'},
    {"force", no_argument, nullptr, opt_force},
    {"label", required_argument, nullptr, 'l'},
    {"json", no_argument, nullptr, opt_json},
    {nullptr, 0, nullptr, 0},
}};

constexpr const char* kClassicUsage =
    "Usage: make-bcache [options] device\n"
    "\t-C, --cache\t\tFormat a cache device\n"
    "\t-B, --bdev\t\tFormat a backing device\n"
    "\t-b, --bucket\t\tbucket size\n"
    "\t-w, --block\t\tblock size (hard sector size of SSD, often 2k)\n"
    "\t-o, --data-offset\tdata offset in sectors\n"
    "\t    --cset-uuid\t\tUUID for the cache set\n"
    "\t    --writeback\t\tenable writeback\n"
    "\t    --discard\t\tenable discards\n"
    "\t    --cache_replacement_policy=(lru|fifo)\n"
    "\t-h, --help\t\tdisplay this help and exit\n";

constexpr const char* kHelp =
    "Make devices or image files members of a cache set\n"
    "Usage: ubcache make [options] -C SSD... -B DISK...\n\n"
    "  -C, --cache                the devices that follow become cache devices\n"
    "  -B, --bdev                 the devices that follow become backing devices (what is on them\n"
    "                             is lost); made together with a cache, they belong to its set\n"
    "  -b, --bucket SIZE          bucket size, a power of two (default: 512k, less if the cache is "
    "small)\n"
    "  -w, --block SIZE           block size (default: the devices' greatest logical block size)\n"
    "  -o, --data-offset SECTORS  where data starts on backing devices (default 16)\n"
    "      --cset-uuid UUID       uuid of the cache set (default: random)\n"
    "      --writeback            cache mode writeback (default: writethrough)\n"
    "      --discard              discard freed buckets of the cache device\n"
    "  -p, --cache-replacement-policy lru|fifo|random\n"
    "  -l, --label TEXT           name, at most 31 characters\n"
    "      --wipe-bcache          overwrite a bcache superblock\n"
    "      --force                overwrite anything that is not in use\n"
    "      --json                 print what was made as JSON\n"
    "  -h, --help\n\n"
    "Example:\n"
    "  truncate -s 1G ssd.img; truncate -s 10G disk.img\n"
    "  ubcache make -C ssd.img -B disk.img --writeback --label home\n";

constexpr int kUsageStatus = 2;

// The command line's faults end the program at once, so they are thrown to make_command().
struct Exit {
    int code = 0;
};

class Parser {
public:
    explicit Parser(bool classic) : classic_(classic) { format_.classic = classic; }

    void parse(int argc, char** argv) {
        optind = 1;
        for (;;) {
            const int c = getopt_long(argc, argv, "-hCBw:b:o:p:l:", kOptions.data(), nullptr);
            if (c == -1) return;
            take(c);
        }
    }
    // Called after parse().
    void require_devices() {
        if (!format_.caches.empty() || !format_.backings.empty()) return;
        if (!classic_) complain("no device given; see ubcache make --help");
        std::fprintf(stderr, "Please supply a device\n");
        usage();
    }
    const FormatOptions& format() const { return format_; }
    bool json() const { return json_; }

private:
    [[noreturn]] void complain(const std::string& text) {
        std::fprintf(stderr, classic_ ? "%s\n" : "ubcache make: %s\n", text.c_str());
        throw Exit{classic_ ? 1 : kUsageStatus};
    }
    [[noreturn]] void usage() {
        std::fprintf(stderr, "%s", kClassicUsage);
        throw Exit{1};
    }
    [[noreturn]] void help() {
        if (classic_) usage();
        std::printf("%s", kHelp);
        throw Exit{0};
    }

    void take(int c) {
        switch (c) {
            case 'C':
                role_ = &format_.caches;
                break;
            case 'B':
                role_ = &format_.backings;
                break;
            case 'b':
                format_.bucket_sectors = sectors("bucket size");
                break;
            case 'w':
                format_.block_sectors = sectors("block size");
                break;
            case 'o':
                take_data_offset();
                break;
            case 'p':
                take_policy();
                break;
            case 'l':
                take_label();
                break;
            case opt_cset_uuid:
                take_uuid();
                break;
            case opt_writeback:
                format_.writeback = true;
                break;
            case opt_discard:
                format_.discard = true;
                break;
            case opt_wipe_bcache:
                format_.wipe_bcache = true;
                break;
            case opt_force:
                format_.force = true;
                break;
            case opt_json:
                json_ = true;
                break;
            case 'h':
                help();
            case 1:
                if (role_ == nullptr) complain("Please specify -C or -B");
                role_->push_back(optarg);
                break;
            default:  // getopt has complained
                if (!classic_) throw Exit{kUsageStatus};
        }
    }

    std::uint32_t sectors(const char* what) {
        const std::uint64_t bytes = parse_size(optarg).value_or(0);
        const std::uint64_t count = bytes / kSectorBytes;
        const std::uint64_t limit = classic_ ? 0xFFFF : std::uint64_t{1} << 22;  // 2 GiB
        if (count != 0 && !std::has_single_bit(count)) {
            complain(fmt::format("{} must be a power of two", what));
        }
        if (count > limit) complain(fmt::format("{} too large", what));
        if (count == 0) complain(fmt::format("{} too small", what));
        return static_cast<std::uint32_t>(count);
    }

    void take_data_offset() {
        format_.data_offset = std::strtoull(optarg, nullptr, 10);
        const bool plausible = classic_ || parse_size(optarg) == format_.data_offset;
        if (format_.data_offset >= ondisk::kDefaultDataOffset && plausible) return;
        complain("Bad data offset; minimum 16 sectors");
    }

    void take_policy() {
        for (const ondisk::Replacement policy :
             {ondisk::Replacement::lru, ondisk::Replacement::fifo, ondisk::Replacement::random}) {
            if (std::strcmp(optarg, ondisk::name_of(policy)) != 0) continue;
            format_.replacement = policy;
            return;
        }
        // The original stores nonsense in the superblock then; nobody can want that.
        complain(fmt::format("unknown replacement policy {}; use lru, fifo or random", optarg));
    }

    void take_label() {
        format_.label = optarg;
        const Outcome<> sound = check_label(format_.label);
        // Tool-compatible: the original minds the length only.
        if (!sound && (!classic_ || format_.label.size() > 31)) complain(sound.error());
    }

    void take_uuid() {
        const std::string_view text(optarg);
        format_.set_uuid = text.size() == 36 ? ondisk::Uuid::parse(text) : std::nullopt;
        const bool usable = format_.set_uuid && (classic_ || !format_.set_uuid->is_zero());
        if (!usable) complain("Bad uuid");
    }

    bool classic_;
    FormatOptions format_;
    std::vector<std::string>* role_ = nullptr;
    bool json_ = false;
};

void print_classic(const Formatted& device) {
    const ondisk::Superblock& sb = device.superblock;
    std::string text;
    text += fmt::format("UUID:\t\t\t{}\n", sb.uuid.to_string());
    text += fmt::format("Set UUID:\t\t{}\n", sb.set_uuid.to_string());
    text += fmt::format("version:\t\t{}\n", sb.version);
    if (sb.is_cache()) {
        text += fmt::format("nbuckets:\t\t{}\n", sb.nbuckets_or_offset);
        text += fmt::format("block_size:\t\t{}\n", sb.block_size);
        text += fmt::format("bucket_size:\t\t{}\n", sb.bucket_size_raw);
        text += fmt::format("nr_in_set:\t\t{}\n", sb.nr_in_set);
        text += fmt::format("nr_this_dev:\t\t{}\n", sb.nr_this_dev);
        text += fmt::format("first_bucket:\t\t{}\n", sb.first_bucket);
    } else {
        text += fmt::format("block_size:\t\t{}\n", sb.block_size);
        text += fmt::format("data_offset:\t\t{}\n", sb.data_offset());
    }
    std::fputs(text.c_str(), stdout);
}

void print_friendly(const Formatted& device) {
    const ondisk::Superblock& sb = device.superblock;
    std::string text;
    if (sb.is_cache()) {
        text = fmt::format("{}: cache device, {} buckets of {}, blocks of {}\n", device.path,
                           sb.nbuckets_or_offset, pretty_size(sb.bucket_sectors() * kSectorBytes),
                           pretty_size(sb.block_size * kSectorBytes));
    } else {
        const std::uint64_t usable = device.device_bytes - sb.data_offset() * kSectorBytes;
        text = fmt::format("{}: backing device, {} usable, cache mode {}\n", device.path,
                           pretty_size(usable), ondisk::name_of(sb.cache_mode()));
    }
    std::fputs(text.c_str(), stdout);
}

nlohmann::json as_json(const Formatted& device) {
    const ondisk::Superblock& sb = device.superblock;
    nlohmann::json json{
        {"device", device.path},       {"type", sb.is_cache() ? "cache" : "backing"},
        {"uuid", sb.uuid.to_string()}, {"set_uuid", sb.set_uuid.to_string()},
        {"version", sb.version},       {"block_sectors", sb.block_size},
        {"label", sb.label_text()}};
    if (sb.is_cache()) {
        json["buckets"] = sb.nbuckets_or_offset;
        json["bucket_sectors"] = sb.bucket_sectors();
    } else {
        json["data_offset_sectors"] = sb.data_offset();
        json["cache_mode"] = ondisk::name_of(sb.cache_mode());
    }
    return json;
}

void print_next_step(const std::vector<Formatted>& devices) {
    std::string serve = "ubcache serve";
    bool cache = false;
    for (const Formatted& device : devices) {
        cache = cache || device.superblock.is_cache();
        serve += (device.superblock.is_cache() ? " --cache " : " --backing ") + device.path;
    }
    std::printf("cache set %s\n", devices.front().superblock.set_uuid.to_string().c_str());
    if (cache) std::printf("Next: %s\n", serve.c_str());
}

int run(const Parser& parser) {
    const bool classic = parser.format().classic;
    const auto made = format_devices(parser.format());
    if (!made) {
        if (classic) {
            std::fputs(classic_text(made.error()).c_str(), stderr);
        } else {
            std::fprintf(stderr, "ubcache make: %s\n", friendly_text(made.error()).c_str());
        }
        return 1;
    }
    if (parser.json()) {
        nlohmann::json list = nlohmann::json::array();
        for (const Formatted& device : *made) list.push_back(as_json(device));
        std::printf("%s\n",
                    list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
        return 0;
    }
    for (const Formatted& device : *made) {
        if (classic)
            print_classic(device);
        else
            print_friendly(device);
    }
    if (!classic) print_next_step(*made);
    return 0;
}

}  // namespace

int make_command(int argc, char** argv, bool classic) {
    try {
        // getopt begins its complaints with this word.
        static char name[] = "ubcache make";
        if (!classic) argv[0] = name;
        Parser parser(classic);
        parser.parse(argc, argv);
        parser.require_devices();
        return run(parser);
    } catch (const Exit& exit) {
        return exit.code;
    }
}

}  // namespace uc::admin
