// The NBD protocol as bytes and values: wire structures, constants, parsers, encoders. Pure: no
// socket, no coroutine, so it can be fuzzed. Words as in the public protocol description
// (doc/proto.md of the nbd project).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "frontend/be.h"

namespace uc::frontend::nbd {

constexpr std::uint64_t kHelloMagic = 0x4e42444d41474943;   // "NBDMAGIC"
constexpr std::uint64_t kOptionMagic = 0x49484156454f5054;  // "IHAVEOPT"
constexpr std::uint64_t kOptionReplyMagic = 0x0003e889045565a9;
constexpr std::uint32_t kRequestMagic = 0x25609513;
constexpr std::uint32_t kSimpleReplyMagic = 0x67446698;
constexpr std::uint32_t kChunkMagic = 0x668e33ef;

constexpr std::size_t kMaxName = 4096;          // limit of every string in the protocol
constexpr std::uint32_t kMaxOption = 64 << 10;  // ours: more than any sensible option
constexpr std::uint32_t kMaxData = 32 << 20;    // payload of one READ or WRITE
constexpr std::uint32_t kMinBlock = 512;

// Handshake flags; the client's have the same values.
constexpr std::uint16_t kFixedNewstyle = 1 << 0;
constexpr std::uint16_t kNoZeroes = 1 << 1;

namespace flag {  // transmission flags
constexpr std::uint16_t has_flags = 1 << 0;
constexpr std::uint16_t read_only = 1 << 1;
constexpr std::uint16_t send_flush = 1 << 2;
constexpr std::uint16_t send_fua = 1 << 3;
constexpr std::uint16_t send_trim = 1 << 5;
constexpr std::uint16_t send_write_zeroes = 1 << 6;
constexpr std::uint16_t send_df = 1 << 7;
constexpr std::uint16_t can_multi_conn = 1 << 8;
constexpr std::uint16_t send_fast_zero = 1 << 11;
}  // namespace flag

namespace opt {
constexpr std::uint32_t export_name = 1;
constexpr std::uint32_t abort = 2;
constexpr std::uint32_t list = 3;
constexpr std::uint32_t info = 6;
constexpr std::uint32_t go = 7;
constexpr std::uint32_t structured_reply = 8;
constexpr std::uint32_t list_meta_context = 9;
constexpr std::uint32_t set_meta_context = 10;
}  // namespace opt

namespace rep {
constexpr std::uint32_t ack = 1;
constexpr std::uint32_t server = 2;
constexpr std::uint32_t info = 3;
constexpr std::uint32_t err_unsup = 0x80000001;
constexpr std::uint32_t err_invalid = 0x80000003;
constexpr std::uint32_t err_unknown = 0x80000006;
}  // namespace rep

enum class Info : std::uint16_t { export_ = 0, name = 1, description = 2, block_size = 3 };

enum class Command : std::uint16_t {
    read = 0,
    write = 1,
    disc = 2,
    flush = 3,
    trim = 4,
    cache = 5,  // not offered
    write_zeroes = 6,
    block_status = 7,  // not offered
};

namespace cmd_flag {
constexpr std::uint16_t fua = 1 << 0;
constexpr std::uint16_t no_hole = 1 << 1;
constexpr std::uint16_t df = 1 << 2;
constexpr std::uint16_t fast_zero = 1 << 4;
}  // namespace cmd_flag

// Error numbers of the protocol; the same on every system.
enum class Status : std::uint32_t {
    ok = 0,
    perm = 1,
    io = 5,
    inval = 22,
    nospc = 28,
    notsup = 95,
    shutdown = 108,
};

constexpr std::uint16_t kChunkDone = 1 << 0;
constexpr std::uint16_t kChunkOffsetData = 1;
constexpr std::uint16_t kChunkError = (1 << 15) | 1;

struct Hello {
    Be<std::uint64_t> magic;
    Be<std::uint64_t> option_magic;
    Be<std::uint16_t> flags;
};
static_assert(sizeof(Hello) == 18 && alignof(Hello) == 1);

struct OptionHeader {
    Be<std::uint64_t> magic;
    Be<std::uint32_t> option;
    Be<std::uint32_t> length;
};
static_assert(sizeof(OptionHeader) == 16 && alignof(OptionHeader) == 1);

struct OptionReplyHeader {
    Be<std::uint64_t> magic;
    Be<std::uint32_t> option;
    Be<std::uint32_t> type;
    Be<std::uint32_t> length;
};
static_assert(sizeof(OptionReplyHeader) == 20 && alignof(OptionReplyHeader) == 1);

struct RequestHeader {
    Be<std::uint32_t> magic;
    Be<std::uint16_t> flags;
    Be<std::uint16_t> command;
    Be<std::uint64_t> cookie;
    Be<std::uint64_t> offset;
    Be<std::uint32_t> length;
};
static_assert(sizeof(RequestHeader) == 28 && alignof(RequestHeader) == 1);

struct SimpleReply {
    Be<std::uint32_t> magic;
    Be<std::uint32_t> error;
    Be<std::uint64_t> cookie;
};
static_assert(sizeof(SimpleReply) == 16 && alignof(SimpleReply) == 1);

struct ChunkHeader {
    Be<std::uint32_t> magic;
    Be<std::uint16_t> flags;
    Be<std::uint16_t> type;
    Be<std::uint64_t> cookie;
    Be<std::uint32_t> length;
};
static_assert(sizeof(ChunkHeader) == 20 && alignof(ChunkHeader) == 1);

struct DataChunk {  // followed by the data
    ChunkHeader header;
    Be<std::uint64_t> offset;
};
static_assert(sizeof(DataChunk) == 28 && alignof(DataChunk) == 1);

struct ErrorChunk {  // without a message
    ChunkHeader header;
    Be<std::uint32_t> error;
    Be<std::uint16_t> message_length;
};
static_assert(sizeof(ErrorChunk) == 26 && alignof(ErrorChunk) == 1);

// What a client is told about an export.
struct ExportFacts {
    std::uint64_t bytes = 0;
    // Advertised, so that file systems made here also fit the kernel's block device of the set.
    // Requests of clients that do not ask may be multiples of kMinBlock.
    std::uint32_t minimum_block = kMinBlock;
    std::uint32_t preferred_block = 4096;
    bool read_only = false;
};
std::uint16_t transmission_flags(const ExportFacts& facts);

struct Option {
    std::uint32_t option = 0;
    std::uint32_t length = 0;  // <= kMaxOption
};

// INFO and GO.
struct InfoOption {
    std::string_view name;  // into the payload
    bool wants_name = false;
    bool wants_description = false;
};

// LIST_META_CONTEXT and SET_META_CONTEXT. We offer no context, so the queries are only checked.
struct MetaOption {
    std::string_view name;
    std::uint32_t queries = 0;
};

struct Request {
    Command command = Command::disc;
    std::uint16_t flags = 0;
    std::uint64_t cookie = 0;
    std::uint64_t offset = 0;
    std::uint32_t length = 0;

    bool has(std::uint16_t flag) const { return (flags & flag) != 0; }
    // Bytes that follow the header.
    std::uint32_t payload() const { return command == Command::write ? length : 0; }
};

// Errc::corrupt: the stream is out of step or the client hostile; the connection must be closed.
Result<std::uint32_t> parse_client_flags(std::span<const std::byte, 4> bytes);
Result<Option> parse_option(std::span<const std::byte, sizeof(OptionHeader)> bytes);
Result<Request> parse_request(std::span<const std::byte, sizeof(RequestHeader)> bytes);
// Errc::invalid: answer with rep::err_invalid and go on.
Result<InfoOption> parse_info(std::span<const std::byte> payload);
Result<MetaOption> parse_meta(std::span<const std::byte> payload);

// Status::ok if the request may be carried out on such an export.
Status check_request(const Request& request, const ExportFacts& facts, bool structured);
Status status_of(const Error& error);

using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& out, const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) == 1);
    const std::size_t at = out.size();
    out.resize(at + sizeof value);
    std::memcpy(out.data() + at, &value, sizeof value);
}
void append_text(Bytes& out, std::string_view text);

// Option replies, appended to `out`.
void append_reply(Bytes& out, std::uint32_t option, std::uint32_t type, std::string_view text = {});
void append_server(Bytes& out, std::string_view name, std::string_view description);
void append_info(Bytes& out, std::uint32_t option, const ExportFacts& facts);
void append_info_text(Bytes& out, std::uint32_t option, Info info, std::string_view text);
// The end of EXPORT_NAME, which has no reply header.
void append_export_name_reply(Bytes& out, const ExportFacts& facts, bool no_zeroes);

}  // namespace uc::frontend::nbd
