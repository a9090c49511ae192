#include "admin/super_show.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string_view>

#include "base/le.h"
#include "ondisk/superblock.h"

namespace uc::admin {

namespace {

using ondisk::Superblock;

// " [word]", or nothing for values without a name.
template <std::size_t N>
std::string bracketed(const std::array<std::string_view, N>& words, std::uint64_t value) {
    return value < N ? fmt::format(" [{}]", words[value]) : std::string();
}

constexpr std::array<std::string_view, 4> kModes{"writethrough", "writeback", "writearound",
                                                 "no caching"};
constexpr std::array<std::string_view, 4> kStates{"detached", "clean", "dirty", "inconsistent"};
constexpr std::array<std::string_view, 3> kPolicies{"lru", "fifo", "random"};

std::string escaped_label(const std::array<char, 32>& label) {
    if (label[0] == '\0') return "(empty)";
    std::string text;
    for (const char c : label) {
        if (c == '\0') break;
        const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                           (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
        // Tool-compatible: bytes above 127 are printed sign-extended ("%ffffffe4").
        text += plain ? std::string(1, c)
                      : fmt::format("%{:x}", static_cast<std::uint32_t>(static_cast<int>(c)));
    }
    return text;
}

std::string cache_lines(const Superblock& sb) {
    const std::uint64_t bucket = sb.bucket_size_raw;
    const std::uint64_t first = bucket * sb.first_bucket;
    const std::uint64_t total = bucket * sb.nbuckets_or_offset;
    std::string text;
    text += fmt::format("dev.cache.first_sector\t{}\n", first);
    text += fmt::format("dev.cache.cache_sectors\t{}\n", total - first);
    text += fmt::format("dev.cache.total_sectors\t{}\n", total);
    text += fmt::format("dev.cache.ordered\t{}\n", sb.sync() ? "yes" : "no");
    text += fmt::format("dev.cache.discard\t{}\n", sb.discard() ? "yes" : "no");
    text += fmt::format("dev.cache.pos\t\t{}\n", sb.nr_this_dev);
    const auto policy = static_cast<std::uint64_t>(sb.replacement());
    text += fmt::format("dev.cache.replacement\t{}{}\n", policy, bracketed(kPolicies, policy));
    return text;
}

std::string backing_lines(const Superblock& sb) {
    const auto mode = static_cast<std::uint64_t>(sb.cache_mode());
    const auto state = static_cast<std::uint64_t>(sb.state());
    std::string text;
    text += fmt::format("dev.data.first_sector\t{}\n", sb.data_offset());
    text += fmt::format("dev.data.cache_mode\t{}{}\n", mode, bracketed(kModes, mode));
    text += fmt::format("dev.data.cache_state\t{}{}\n", state, bracketed(kStates, state));
    return text;
}

// Magic, place, checksum; false: what follows means nothing.
bool check_frame(std::span<const std::byte> bytes, bool force, SuperShow& show) {
    const auto stop = [&show](const char* error) {
        show.error = error;
        show.exit_code = 2;
        return false;
    };
    const bool magic = ondisk::has_superblock_magic(bytes);
    show.out += magic ? "sb.magic\t\tok\n" : "sb.magic\t\tbad magic\n";
    if (!magic) return stop("Invalid superblock (bad magic)\n");

    Le<std::uint64_t> offset;
    std::memcpy(&offset, bytes.data() + 8, sizeof offset);
    const bool place = offset == ondisk::kSuperblockSector;
    show.out += fmt::format("sb.first_sector\t\t{} {}\n", std::uint64_t{offset},
                            place ? "[match]" : "[expected 8s]");
    if (!place) return stop("Invalid superblock (bad sector)\n");

    const ondisk::SuperblockSums sums = ondisk::superblock_sums(bytes);
    const bool match = sums.stored == sums.computed;
    show.out += fmt::format("sb.csum\t\t\t{:X} {}\n", sums.stored,
                            match ? "[match]" : fmt::format("[expected {:X}]", sums.computed));
    if (!match && !force) return stop("Corrupt superblock (bad csum)\n");
    return true;
}

}  // namespace

SuperShow super_show(std::span<const std::byte> bytes, bool force) {
    SuperShow show;
    if (!check_frame(bytes, force, show)) return show;

    const Superblock sb = ondisk::parse_superblock(bytes);
    // Tool-compatible: 1.0.8 does not know versions 5 and 6.
    const bool cache = sb.version == 0 || sb.version == 3;
    const bool backing = sb.version == 1 || sb.version == 4;
    const char* kind = cache ? "cache device" : backing ? "backing device" : "unknown";
    show.out += fmt::format("sb.version\t\t{} [{}]\n", sb.version, kind);
    if (!cache && !backing) return show;

    show.out += fmt::format("\ndev.label\t\t{}\n", escaped_label(sb.label));
    show.out += fmt::format("dev.uuid\t\t{}\n", sb.uuid.to_string());
    show.out += fmt::format("dev.sectors_per_block\t{}\n", sb.block_size);
    show.out += fmt::format("dev.sectors_per_bucket\t{}\n", sb.bucket_size_raw);
    if (backing && sb.version != 1 && (sb.keys == 1 || sb.d[0] != 0)) {
        show.error = "Possible experimental format detected, bailing\n";
        show.exit_code = 3;
        return show;
    }
    show.out += cache ? cache_lines(sb) : backing_lines(sb);
    show.out += fmt::format("\ncset.uuid\t\t{}\n", sb.set_uuid.to_string());
    return show;
}

}  // namespace uc::admin
