// Feeds arbitrary bytes to every parser of the NBD protocol and to the check of requests.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "frontend/nbd_protocol.h"

namespace uc::frontend::nbd {
namespace {

void try_request(std::span<const std::byte> bytes) {
    const auto request = parse_request(bytes.first<sizeof(RequestHeader)>());
    if (!request) return;
    const ExportFacts facts{std::uint64_t{1} << 30, 4096, (request->cookie & 1) != 0};
    if (check_request(*request, facts, (request->cookie & 2) != 0) != Status::ok) return;
    if (request->command == Command::flush) return;
    CHECK(request->offset + request->length <= facts.bytes);
    CHECK(request->payload() <= kMaxData);
}

void try_all(std::span<const std::byte> bytes) {
    static_cast<void>(parse_info(bytes));
    static_cast<void>(parse_meta(bytes));
    if (bytes.size() >= 4) static_cast<void>(parse_client_flags(bytes.first<4>()));
    if (bytes.size() >= sizeof(OptionHeader)) {
        static_cast<void>(parse_option(bytes.first<sizeof(OptionHeader)>()));
    }
    if (bytes.size() >= sizeof(RequestHeader)) try_request(bytes);
}

}  // namespace
}  // namespace uc::frontend::nbd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    uc::frontend::nbd::try_all(std::as_bytes(std::span(data, size)));
    return 0;
}
