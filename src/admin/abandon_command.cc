#include "admin/abandon_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "admin/block_file.h"
#include "admin/complaint.h"
#include "admin/control_client.h"
#include "admin/outcome.h"
#include "admin/size_text.h"
#include "ondisk/superblock.h"

namespace uc::admin {

namespace {

using nlohmann::json;

void print_json(const json& value) {
    std::printf("%s\n", value.dump(2, ' ', false, json::error_handler_t::replace).c_str());
}

// "FIRST-BYTE BYTES" lines, durable once close() has returned without error. A file that was made
// for nothing is removed. Without a path they are dropped.
class LostList {
public:
    static Outcome<LostList> create(std::string path) {
        if (path.empty()) return LostList(std::move(path), -1);
        if (path == "-") return LostList(std::move(path), STDOUT_FILENO);
        const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0) {
            const char* help = errno == EEXIST ? "; name another one with --list" : "";
            return tl::unexpected(fmt::format("{}: {}{}", path, std::strerror(errno), help));
        }
        return LostList(std::move(path), fd);
    }
    LostList(LostList&& other) noexcept
        : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), keep_(other.keep_) {}
    LostList(const LostList&) = delete;
    LostList& operator=(const LostList&) = delete;
    ~LostList() {
        if (path_ == "-" || fd_ < 0) return;
        ::close(fd_);
        if (!keep_) ::unlink(path_.c_str());
    }

    const std::string& path() const { return path_; }
    void keep() { keep_ = true; }

    void add(const std::string& text) {
        if (fd_ < 0) return;
        std::size_t done = 0;
        while (done < text.size() && error_ == 0) {
            const ssize_t put = ::write(fd_, text.data() + done, text.size() - done);
            if (put > 0)
                done += static_cast<std::size_t>(put);
            else if (errno != EINTR)
                error_ = put == 0 ? ENOSPC : errno;
        }
    }
    Outcome<> make_durable() {
        if (error_ == 0 && fd_ >= 0 && path_ != "-" && ::fsync(fd_) != 0) error_ = errno;
        if (error_ == 0) return {};
        return tl::unexpected(
            fmt::format("{}: {}; nothing was given up", path_, std::strerror(error_)));
    }

private:
    LostList(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
    std::string path_;
    int fd_;
    int error_ = 0;
    bool keep_ = false;
};

void add_ranges(LostList& list, const json& progress) {
    const auto ranges = progress.find("ranges");
    if (ranges == progress.end() || !ranges->is_array()) return;
    std::string text;
    for (const json& range : *ranges) {
        if (!range.is_array() || range.size() != 2) continue;
        text += fmt::format("{} {}\n", range[0].dump(), range[1].dump());
    }
    list.add(text);
}

std::string heading(const std::string& uuid) {
    return fmt::format(
        "# Data of the backing device {} that only its cache has.\n"
        "# First byte and length in bytes, counted from the start of the device (the volume starts "
        "at its data offset).\n",
        uuid);
}

constexpr const char* kIncomplete =
    "# INCOMPLETE: the rest of the index cannot be read, so there is more than this.\n";

std::string said(const std::string& uuid, std::uint64_t dirty, bool complete) {
    return fmt::format("{} of {} {}only in the cache", pretty_size(dirty), uuid,
                       complete ? "are " : "or more are ");
}

// Where the list goes. Who only looks need not have a file, which would be in the way when the data
// are then given up.
std::string list_path(const AbandonOptions& options) {
    if (!options.list.empty() || !options.discard) return options.list;
    return fmt::format("ubcache-lost-{}.txt", options.uuid);
}

// With a daemon: it knows the ranges.
Outcome<> ask(const ClientOptions& client, const AbandonOptions& options) {
    TRY(ControlClient control, ControlClient::connect(client.control));
    TRY(LostList list, LostList::create(list_path(options)));
    list.add(heading(options.uuid));
    const auto take = [&list](const json& progress) { add_ranges(list, progress); };
    TRY(json found, control.request(json{{"op", "list-dirty"}, {"uuid", options.uuid}}, take));
    const std::uint64_t dirty = found.value("dirty_bytes", std::uint64_t{0});
    const bool complete = found.value("complete", false);
    if (!complete) list.add(kIncomplete);
    TRY_OK(list.make_durable());
    if (!list.path().empty()) found["list"] = list.path();
    found["discarded"] = false;
    if (options.discard) {
        const json request{{"op", "abandon"}, {"uuid", options.uuid}, {"discard_dirty", true}};
        TRY(const json done, control.request(request, [](const json&) {}));
        found.update(done);
        found["discarded"] = true;
    }
    list.keep();
    const bool aside = list.path() == "-";  // standard output has the list
    if (client.json && !aside) print_json(found);
    if (client.json || aside) return {};
    const std::string where =
        list.path().empty() ? "where, writes --list FILE" : "the list is in " + list.path();
    std::printf("%s; %s\n", said(options.uuid, dirty, complete).c_str(), where.c_str());
    if (!options.discard) {
        std::printf("Nothing was given up. To do that: --discard-dirty%s\n",
                    list.path().empty() ? "" : " (and another --list)");
    } else if (found.value("goes_on", std::string()) == "volume") {
        std::printf("given up; the volume goes on with what its backing device has\n");
    } else {
        std::printf("given up; the set goes on without this device\n");
    }
    return {};
}

Outcome<ondisk::Superblock> read_superblock(const BlockFile& file, const std::string& uuid) {
    std::array<std::byte, ondisk::kSuperblockBytes> bytes{};
    const auto got = file.read(ondisk::kSuperblockSector * kSectorBytes, bytes);
    if (!got) return tl::unexpected(std::string("its superblock cannot be read"));
    const auto sb = ondisk::decode_superblock(bytes, file.size_bytes() / kSectorBytes, 1);
    if (!sb) return tl::unexpected(std::string(sb.error().what));
    if (!sb->is_backing()) return tl::unexpected(std::string("is not a backing device"));
    if (sb->uuid.to_string() != uuid) {
        return tl::unexpected(
            fmt::format("is the backing device {}, not {}", sb->uuid.to_string(), uuid));
    }
    if (sb->state() != ondisk::BackingState::dirty) {
        return tl::unexpected(
            fmt::format("nothing to give up: its state is \"{}\"", ondisk::name_of(sb->state())));
    }
    return *sb;
}

// Without: what was dirty nobody can tell. "stale" is the state in which every set gives the device
// a new index, so that the old cache's data can never mix with what is written from now on.
Outcome<> change_device(const ClientOptions& client, const AbandonOptions& options) {
    const std::string& path = options.backing;
    const auto named = [&path](const std::string& what) {
        return tl::unexpected(path + ": " + what);
    };
    std::string holder;
    const BlockFile::Access access =
        options.discard ? BlockFile::Access::write : BlockFile::Access::read;
    const Result<BlockFile> file = BlockFile::open(path, access, &holder);
    if (!file && file.error().code == Errc::busy) {
        return named(fmt::format("is in use ({}); stop its user first", holder));
    }
    if (!file) return named(fmt::format("cannot be opened: {}", std::strerror(file.error().sys)));
    Outcome<ondisk::Superblock> sb = read_superblock(*file, options.uuid);
    if (!sb) return named(sb.error());
    if (options.discard) {
        sb->set_state(ondisk::BackingState::stale);
        const auto bytes = ondisk::encode_superblock(*sb);
        const auto written = file->write(ondisk::kSuperblockSector * kSectorBytes, bytes);
        if (!written || !file->sync()) return named("its superblock cannot be written");
    }
    if (client.json) {
        print_json(
            json{{"uuid", options.uuid}, {"complete", false}, {"discarded", options.discard}});
    } else if (options.discard) {
        std::printf(
            "given up: %s goes on with what it has; to cache it again, serve it with "
            "--attach\n",
            path.c_str());
    } else {
        std::printf(
            "%s is dirty: its lost cache had newer data, and where cannot be told "
            "without it.\nNothing was given up. To do that: --discard-dirty\n",
            path.c_str());
    }
    return {};
}

}  // namespace

int abandon_command(const ClientOptions& client, const AbandonOptions& options) {
    if (!options.backing.empty() && !options.list.empty()) {
        return complain("abandon",
                        "--list needs the cache device: without it nobody knows what is lost");
    }
    const Outcome<> done =
        options.backing.empty() ? ask(client, options) : change_device(client, options);
    return done ? 0 : complain("abandon", done.error());
}

}  // namespace uc::admin
