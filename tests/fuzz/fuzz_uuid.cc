// The uuid table has no checksum: every content decodes, and encodes to itself. Text that parses as
// a uuid prints as one that parses to the same.
#include <string_view>

#include "base/check.h"
#include "fuzz_bytes.h"
#include "ondisk/uuid.h"

namespace uc {
namespace {

constexpr ondisk::Geometry kGeometry{.bucket_sectors = 8};

void decode_table(std::span<const std::byte> bytes) {
    for (const std::uint32_t version : {0u, 1u}) {
        const auto entries = ondisk::decode_uuid_table(bytes, version, kGeometry);
        CHECK(entries.size() == kGeometry.uuid_entries());
        fuzz::Bytes again(kGeometry.metadata_bytes());
        ondisk::encode_uuid_table(entries, again);
        if (version == 0) continue;
        const std::size_t whole = std::min(bytes.size(), again.size()) / 128 * 128;
        CHECK(std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(whole),
                         again.begin()));
    }
}

}  // namespace
}  // namespace uc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace uc;
    decode_table(fuzz::input(data, size));
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto uuid = ondisk::Uuid::parse(text)) {
        CHECK(ondisk::Uuid::parse(uuid->to_string()) == uuid);
    }
    return 0;
}
