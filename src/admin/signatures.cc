#include "admin/signatures.h"

#include <blkid/blkid.h>

#include <memory>

namespace uc::admin {

namespace {

struct FreeProbe {
    void operator()(blkid_probe probe) const { blkid_free_probe(probe); }
};
using Probe = std::unique_ptr<std::remove_pointer_t<blkid_probe>, FreeProbe>;

// One device has few signatures; a wipe that has no effect must not repeat for ever.
constexpr int kMaxSignatures = 32;

Result<Probe> make_probe(int fd) {
    Probe probe(blkid_new_probe());
    if (!probe) return fail(Errc::io, "libblkid: out of memory");
    if (blkid_probe_set_device(probe.get(), fd, 0, 0) != 0) {
        return fail(Errc::io, "libblkid cannot read the device");
    }
    blkid_probe_enable_superblocks(probe.get(), 1);
    blkid_probe_set_superblocks_flags(probe.get(),
                                      BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE | BLKID_SUBLKS_MAGIC);
    blkid_probe_enable_partitions(probe.get(), 1);
    blkid_probe_set_partitions_flags(probe.get(), BLKID_PARTS_MAGIC);
    return probe;
}

std::string value_of(blkid_probe probe, const char* name) {
    const char* text = nullptr;
    if (blkid_probe_lookup_value(probe, name, &text, nullptr) != 0) return {};
    return text;
}

}  // namespace

Result<std::vector<Signature>> find_signatures(int fd) {
    TRY(const Probe probe, make_probe(fd));
    std::vector<Signature> found;
    for (int i = 0; i < kMaxSignatures; ++i) {
        const int result = blkid_do_probe(probe.get());
        if (result < 0) return fail(Errc::io, "libblkid cannot read the device");
        if (result != 0) break;
        const std::string table = value_of(probe.get(), "PTTYPE");
        if (table.empty()) {
            found.push_back({value_of(probe.get(), "TYPE"), value_of(probe.get(), "USAGE")});
        } else {
            found.push_back({table, "partition table"});
        }
    }
    return found;
}

Result<void> erase_signatures(int fd) {
    TRY(const Probe probe, make_probe(fd));
    for (int i = 0; i < kMaxSignatures; ++i) {
        const int result = blkid_do_probe(probe.get());
        if (result < 0) return fail(Errc::io, "libblkid cannot read the device");
        if (result != 0) return {};
        if (blkid_do_wipe(probe.get(), 0) != 0) {
            return fail(Errc::io, "libblkid cannot erase an old signature");
        }
    }
    return {};
}

}  // namespace uc::admin
