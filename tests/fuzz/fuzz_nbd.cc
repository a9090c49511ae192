// The NBD protocol: the input is what a client may send, and is given to every parser. What they
// accept lies inside the input, and a request that passes the check lies inside the export.
#include "base/check.h"
#include "frontend/nbd_protocol.h"
#include "fuzz_bytes.h"

namespace uc::frontend::nbd {
namespace {

void check_request_of(std::span<const std::byte, sizeof(RequestHeader)> bytes) {
    const auto request = parse_request(bytes);
    if (!request) return;
    CHECK(request->payload() <= kMaxData);
    const ExportFacts facts{std::uint64_t{1} << 30, kMinBlock, 4096, (request->cookie & 1) != 0};
    if (check_request(*request, facts, (request->cookie & 2) != 0) != Status::ok) return;
    const bool reads = request->command == Command::read || request->command == Command::flush;
    CHECK(reads || !facts.read_only);
    if (request->command == Command::flush) return;
    CHECK(request->length > 0);
    CHECK(request->offset % kMinBlock == 0);
    CHECK(request->length % kMinBlock == 0);
    CHECK(request->offset < facts.bytes);
    CHECK(request->length <= facts.bytes - request->offset);
    CHECK(request->command != Command::read || request->length <= kMaxData);
}

void check_text(std::span<const std::byte> bytes, std::string_view text) {
    CHECK(text.size() <= kMaxName);
    const auto* const begin = reinterpret_cast<const char*>(bytes.data());
    CHECK(text.empty() || (text.data() >= begin && text.data() < begin + bytes.size()));
    CHECK(text.size() <= bytes.size());
}

void check_payload(std::span<const std::byte> bytes) {
    if (const auto info = parse_info(bytes)) check_text(bytes, info->name);
    const auto meta = parse_meta(bytes);
    if (!meta) return;
    check_text(bytes, meta->name);
    CHECK(meta->queries <= bytes.size() / sizeof(std::uint32_t));
}

void check_headers(std::span<const std::byte> bytes) {
    if (bytes.size() >= sizeof(std::uint32_t)) {
        const auto flags = parse_client_flags(bytes.first<sizeof(std::uint32_t)>());
        CHECK(!flags || (*flags & kFixedNewstyle) != 0);
    }
    if (bytes.size() >= sizeof(OptionHeader)) {
        const auto option = parse_option(bytes.first<sizeof(OptionHeader)>());
        CHECK(!option || option->length <= kMaxOption);
        if (option) check_payload(bytes.subspan(sizeof(OptionHeader)));
    }
    if (bytes.size() >= sizeof(RequestHeader)) {
        check_request_of(bytes.first<sizeof(RequestHeader)>());
    }
}

}  // namespace
}  // namespace uc::frontend::nbd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace uc;
    frontend::nbd::check_payload(fuzz::input(data, size));
    frontend::nbd::check_headers(fuzz::input(data, size));
    return 0;
}
