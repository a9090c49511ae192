// Everything here reads bytes of a stranger. Lengths are checked against what is really there
// before they are used; text is taken as a view of at most kMaxName bytes and never interpreted.
#include "frontend/nbd_protocol.h"

namespace uc::frontend::nbd {

namespace {

template <class T>
T load(std::span<const std::byte> bytes) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

// Takes values off the front of a payload.
class Cursor {
public:
    explicit Cursor(std::span<const std::byte> rest) : rest_(rest) {}

    template <std::unsigned_integral T>
    Result<T> number() {
        if (rest_.size() < sizeof(T)) return fail(Errc::invalid, "option is too short");
        const T value = load<Be<T>>(rest_);
        rest_ = rest_.subspan(sizeof(T));
        return value;
    }
    Result<std::string_view> text() {
        TRY(const std::uint32_t length, number<std::uint32_t>());
        if (length > kMaxName) return fail(Errc::invalid, "string is too long");
        if (length > rest_.size()) return fail(Errc::invalid, "string is longer than the option");
        const std::string_view out(reinterpret_cast<const char*>(rest_.data()), length);
        rest_ = rest_.subspan(length);
        return out;
    }
    bool at_end() const { return rest_.empty(); }

private:
    std::span<const std::byte> rest_;
};

std::uint16_t allowed_flags(Command command, bool structured) {
    switch (command) {
        case Command::read:
            return structured ? cmd_flag::fua | cmd_flag::df : cmd_flag::fua;
        case Command::write_zeroes:
            return cmd_flag::fua | cmd_flag::no_hole | cmd_flag::fast_zero;
        default:
            return cmd_flag::fua;
    }
}

bool changes_data(Command command) {
    return command == Command::write || command == Command::trim ||
           command == Command::write_zeroes;
}

bool offered(Command command) {
    return command == Command::read || command == Command::flush || changes_data(command);
}

}  // namespace

std::uint16_t transmission_flags(const ExportFacts& facts) {
    std::uint16_t flags =
        flag::has_flags | flag::send_flush | flag::send_fua | flag::send_df | flag::can_multi_conn;
    if (facts.read_only) return flags | flag::read_only;
    return flags | flag::send_trim | flag::send_write_zeroes | flag::send_fast_zero;
}

Result<std::uint32_t> parse_client_flags(std::span<const std::byte, 4> bytes) {
    const std::uint32_t flags = load<Be<std::uint32_t>>(bytes);
    if ((flags & kFixedNewstyle) == 0) return fail(Errc::corrupt, "client is not fixed newstyle");
    if ((flags & ~std::uint32_t{kFixedNewstyle | kNoZeroes}) != 0) {
        return fail(Errc::corrupt, "unknown client flags");
    }
    return flags;
}

Result<Option> parse_option(std::span<const std::byte, sizeof(OptionHeader)> bytes) {
    const auto header = load<OptionHeader>(bytes);
    if (header.magic != kOptionMagic) return fail(Errc::corrupt, "bad option magic");
    if (header.length > kMaxOption) return fail(Errc::corrupt, "option is too long");
    return Option{header.option, header.length};
}

Result<Request> parse_request(std::span<const std::byte, sizeof(RequestHeader)> bytes) {
    const auto header = load<RequestHeader>(bytes);
    if (header.magic != kRequestMagic) return fail(Errc::corrupt, "bad request magic");
    Request request;
    request.command = static_cast<Command>(std::uint16_t{header.command});
    request.flags = header.flags;
    request.cookie = header.cookie;
    request.offset = header.offset;
    request.length = header.length;
    if (request.payload() > kMaxData) return fail(Errc::corrupt, "write is too long");
    return request;
}

Result<InfoOption> parse_info(std::span<const std::byte> payload) {
    Cursor cursor(payload);
    InfoOption out;
    TRY(out.name, cursor.text());
    TRY(const std::uint16_t count, cursor.number<std::uint16_t>());
    for (unsigned i = 0; i < count; ++i) {
        TRY(const std::uint16_t info, cursor.number<std::uint16_t>());
        if (info == static_cast<std::uint16_t>(Info::name)) out.wants_name = true;
        if (info == static_cast<std::uint16_t>(Info::description)) out.wants_description = true;
    }
    if (!cursor.at_end()) return fail(Errc::invalid, "option has trailing bytes");
    return out;
}

Result<MetaOption> parse_meta(std::span<const std::byte> payload) {
    Cursor cursor(payload);
    MetaOption out;
    TRY(out.name, cursor.text());
    TRY(out.queries, cursor.number<std::uint32_t>());
    for (std::uint32_t i = 0; i < out.queries;
         ++i) {  // each takes 4 bytes, so the payload bounds it
        TRY_OK(cursor.text());
    }
    if (!cursor.at_end()) return fail(Errc::invalid, "option has trailing bytes");
    return out;
}

Status check_request(const Request& request, const ExportFacts& facts, bool structured) {
    if (!offered(request.command)) return Status::inval;
    if ((request.flags & ~allowed_flags(request.command, structured)) != 0) return Status::inval;
    if (changes_data(request.command) && facts.read_only) return Status::perm;
    if (request.command == Command::flush) return Status::ok;

    if (request.offset % kMinBlock != 0 || request.length % kMinBlock != 0) return Status::inval;
    if (request.length == 0) return Status::inval;
    if (request.command == Command::read && request.length > kMaxData) return Status::inval;
    const bool inside =
        request.offset <= facts.bytes && request.length <= facts.bytes - request.offset;
    if (!inside) return changes_data(request.command) ? Status::nospc : Status::inval;
    // Zeroing may go all the way to the disk, so it is never known to be faster than writing.
    if (request.has(cmd_flag::fast_zero)) return Status::notsup;
    return Status::ok;
}

Status status_of(const Error& error) {
    switch (error.code) {
        case Errc::invalid:
            return Status::inval;
        case Errc::no_space:
            return Status::nospc;
        case Errc::read_only:
            return Status::perm;
        case Errc::unsupported:
            return Status::notsup;
        case Errc::stopped:
            return Status::shutdown;
        default:
            return Status::io;
    }
}

void append_text(Bytes& out, std::string_view text) {
    if (text.empty()) return;
    const std::size_t at = out.size();
    out.resize(at + text.size());
    std::memcpy(out.data() + at, text.data(), text.size());
}

namespace {

void append_header(Bytes& out, std::uint32_t option, std::uint32_t type, std::size_t length) {
    append(out,
           OptionReplyHeader{kOptionReplyMagic, option, type, static_cast<std::uint32_t>(length)});
}

}  // namespace

void append_reply(Bytes& out, std::uint32_t option, std::uint32_t type, std::string_view text) {
    append_header(out, option, type, text.size());
    append_text(out, text);
}

void append_server(Bytes& out, std::string_view name, std::string_view description) {
    append_header(out, opt::list, rep::server,
                  sizeof(std::uint32_t) + name.size() + description.size());
    append(out, Be<std::uint32_t>(static_cast<std::uint32_t>(name.size())));
    append_text(out, name);
    append_text(out, description);
}

void append_info(Bytes& out, std::uint32_t option, const ExportFacts& facts) {
    append_header(out, option, rep::info, 12);
    append(out, Be<std::uint16_t>(static_cast<std::uint16_t>(Info::export_)));
    append(out, Be<std::uint64_t>(facts.bytes));
    append(out, Be<std::uint16_t>(transmission_flags(facts)));

    append_header(out, option, rep::info, 14);
    append(out, Be<std::uint16_t>(static_cast<std::uint16_t>(Info::block_size)));
    append(out, Be<std::uint32_t>(facts.minimum_block));
    append(out, Be<std::uint32_t>(facts.preferred_block));
    append(out, Be<std::uint32_t>(kMaxData));
}

void append_info_text(Bytes& out, std::uint32_t option, Info info, std::string_view text) {
    append_header(out, option, rep::info, sizeof(std::uint16_t) + text.size());
    append(out, Be<std::uint16_t>(static_cast<std::uint16_t>(info)));
    append_text(out, text);
}

void append_export_name_reply(Bytes& out, const ExportFacts& facts, bool no_zeroes) {
    append(out, Be<std::uint64_t>(facts.bytes));
    append(out, Be<std::uint16_t>(transmission_flags(facts)));
    if (!no_zeroes) out.resize(out.size() + 124);
}

}  // namespace uc::frontend::nbd
