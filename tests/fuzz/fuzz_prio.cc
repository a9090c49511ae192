// Priority sets: the input is one priority bucket, cut or filled up to its size. An accepted one is
// the same when sealed again.
#include "base/check.h"
#include "fuzz_bytes.h"
#include "ondisk/checksum.h"
#include "ondisk/magic.h"
#include "ondisk/prio_set.h"

namespace uc {
namespace {

constexpr ondisk::Geometry kGeometry{.bucket_sectors = 8, .nbuckets = 1000, .first_bucket = 3};

void decode(const fuzz::Bytes& bytes, bool must_fit) {
    const auto view = ondisk::decode_prio_set(bytes, fuzz::kSetMagic, kGeometry);
    CHECK(view || !must_fit);
    if (!view) return;
    CHECK(view->entries.size() == kGeometry.prios_per_bucket());
    fuzz::Bytes again(bytes.size());
    again.back() = bytes.back();  // the byte behind the last whole entry
    std::copy(view->entries.begin(), view->entries.end(),
              ondisk::prio_entries(again, kGeometry).begin());
    ondisk::seal_prio_set(again, view->seq, view->next_bucket, fuzz::kSetMagic);
    CHECK(std::equal(again.begin() + 40, again.end(), bytes.begin() + 40));
    CHECK(ondisk::decode_prio_set(again, fuzz::kSetMagic, kGeometry));
}

}  // namespace
}  // namespace uc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace uc;
    fuzz::Bytes bytes = fuzz::resized(fuzz::input(data, size), kGeometry.metadata_bytes());
    decode(bytes, false);
    fuzz::store(bytes, 8, fuzz::kSetMagic ^ ondisk::kPrioMagic);
    fuzz::store(bytes, 0, ondisk::crc64(std::span(bytes).subspan(8)));
    decode(bytes, true);
    return 0;
}
