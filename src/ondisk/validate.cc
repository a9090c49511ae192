// What a key may say given the geometry (format section 2.6). The kernel stops the whole set on
// these, so they are asserted before writing too.
#include "ondisk/validate.h"

namespace uc::ondisk {

namespace {

constexpr std::uint64_t kOffsetLimit = std::uint64_t{1} << 63;

// `r + SIZE <= bucket_size` in the sector space of the cache device, inside the data area.
Result<void> validate_pointer(const Key& key, const Geometry& geometry) {
    if (!key.has_ptr() || !key.ptr().available()) return {};
    const std::uint64_t sector = key.ptr().sector();
    const std::uint64_t bucket = geometry.bucket_of(sector);
    if (bucket < geometry.first_bucket) return fail(Errc::corrupt, "pointer before first bucket");
    if (bucket >= geometry.nbuckets) return fail(Errc::corrupt, "pointer past end of device");
    if (sector - bucket * geometry.bucket_sectors + key.size() > geometry.bucket_sectors) {
        return fail(Errc::corrupt, "pointer crosses end of bucket");
    }
    return {};
}

}  // namespace

Result<void> validate_extent_key(const Key& key, const Geometry& geometry) {
    if (key.size() == 0) return {};
    if (key.size() > key.end()) return fail(Errc::corrupt, "extent starts before sector 0");
    // Offsets are compared as signed numbers (2.3).
    if (key.end() >= kOffsetLimit) return fail(Errc::corrupt, "extent offset out of range");
    return validate_pointer(key, geometry);
}

Result<void> validate_node_key(const Key& key, const Geometry& geometry) {
    if (!key.has_ptr()) return fail(Errc::corrupt, "node key without pointer");
    if (key.size() == 0) return fail(Errc::corrupt, "node key of size 0");
    if (key.dirty()) return fail(Errc::corrupt, "node key is dirty");
    if (key.end() >= kOffsetLimit) return fail(Errc::corrupt, "node key offset out of range");
    return validate_pointer(key, geometry);
}

}  // namespace uc::ondisk
