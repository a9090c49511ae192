#include "alloc/prio_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "io/buffer.h"

namespace uc::alloc {

namespace {

void load_entries(const ondisk::PrioSetView& view, std::uint64_t first_entry, BucketTable& table) {
    for (std::size_t j = 0; j < view.entries.size(); ++j) {
        const std::uint64_t index = first_entry + j;
        if (index >= table.size()) return;
        Bucket& bucket = table.at(static_cast<BucketIndex>(index));
        bucket.gen = bucket.durable_gen = bucket.last_gc = Gen(view.entries[j].gen);
        table.set_prio(static_cast<BucketIndex>(index), view.entries[j].prio);
    }
}

}  // namespace

Task<Result<std::vector<BucketIndex>>> read_prio_table(io::BlockDevice& cache, std::uint64_t first,
                                                       std::uint64_t set_magic, BucketTable& table,
                                                       std::string& problem) {
    const ondisk::Geometry& geometry = table.geometry();
    std::vector<BucketIndex> members;
    io::Buffer buffer(geometry.metadata_bytes());
    std::uint64_t next = first;
    for (std::uint32_t k = 0; k < geometry.prio_buckets(); ++k) {
        if (next < geometry.first_bucket + geometry.njournal || next >= geometry.nbuckets) {
            problem = fmt::format(
                "priority table: member {} is said to be in bucket {}, which is "
                "not a usable bucket",
                k, next);
            co_return fail(Errc::corrupt, "priority table out of range");
        }
        const BucketIndex bucket = static_cast<BucketIndex>(next);
        const Result<void> read = co_await cache.read(geometry.bucket_start(bucket), buffer.span());
        if (!read) {
            problem = fmt::format("priority table: bucket {} cannot be read", bucket);
            co_return tl::unexpected(read.error());
        }
        const auto view = ondisk::decode_prio_set(buffer.span(), set_magic, geometry);
        if (!view) {
            problem = fmt::format("priority table: {} in bucket {}", view.error().what, bucket);
            co_return tl::unexpected(view.error());
        }
        load_entries(*view, std::uint64_t{k} * geometry.prios_per_bucket(), table);
        members.push_back(bucket);
        next = view->next_bucket;  // the last one's is left over and not followed
    }
    co_return members;
}

Task<Result<void>> write_prio_table(io::BlockDevice& cache, const std::vector<BucketIndex>& members,
                                    std::uint64_t seq, std::uint64_t set_magic,
                                    const BucketTable& table) {
    const ondisk::Geometry& geometry = table.geometry();
    CHECK(members.size() == geometry.prio_buckets());
    io::Buffer buffer = io::Buffer::zeroed(geometry.metadata_bytes());
    for (std::size_t k = members.size(); k-- > 0;) {
        const std::span<ondisk::PrioEntry> entries = ondisk::prio_entries(buffer.span(), geometry);
        const std::uint64_t first = k * geometry.prios_per_bucket();
        for (std::size_t j = 0; j < entries.size(); ++j) {
            const std::uint64_t index = first + j;
            const bool used = index < table.size();
            const BucketIndex bucket = static_cast<BucketIndex>(index);
            entries[j].prio = used ? table.prio(bucket) : std::uint16_t{0};
            entries[j].gen = used ? table.at(bucket).gen.raw() : std::uint8_t{0};
        }
        const std::uint64_t next = k + 1 < members.size() ? members[k + 1] : 0;
        ondisk::seal_prio_set(buffer.span(), seq, next, set_magic);
        CO_OK(co_await cache.write(geometry.bucket_start(members[k]), buffer.span()));
    }
    co_return Result<void>{};
}

}  // namespace uc::alloc
