#include "alloc/allocator.h"

#include <algorithm>

#include "base/check.h"

namespace uc::alloc {

Allocator::Allocator(BucketTable& table) : table_(table) {
    const std::uint64_t nodes =
        std::max<std::uint64_t>({16, table.geometry().njournal, table.size() / 64});
    // Two tables: the one being written and the one that a following write needs.
    prio_reserve_ = 2 * std::uint64_t{table.geometry().prio_buckets()};
    reserve_ = prio_reserve_ + nodes;
    low_water_ = reserve_ + std::max<std::uint64_t>(8, table.size() / 32);
}

void Allocator::list_unreferenced() {
    for (BucketIndex b = 0; b < table_.size(); ++b) {
        Bucket& bucket = table_.at(b);
        if (bucket.use != Use::none || bucket.live != 0 || bucket.pins != 0) continue;
        // Only overridden keys point here. They are still on disk, so the new generation must be
        // durable before the bucket is used: the reclaimer sees to it.
        if (bucket.seen) continue;
        if (bucket.gen.distance_from(bucket.last_gc) >= kMaxGenDistance) continue;
        bucket.gen = bucket.gen.next();
        bucket.listed = true;
        free_.push_back(b);
    }
}

void Allocator::list_for_table() {
    // Not more: nobody else may use these before the table is durable (see take_metadata()).
    const std::uint64_t needed = table_.geometry().prio_buckets();
    for (BucketIndex b = 0; b < table_.size() && free_.size() < needed; ++b) {
        Bucket& bucket = table_.at(b);
        if (bucket.use != Use::none || bucket.live != 0 || bucket.listed) continue;
        bucket.listed = true;
        free_.push_back(b);
    }
}

BucketIndex Allocator::pop(Use use) {
    CHECK(!free_.empty());
    const BucketIndex index = free_.front();
    free_.pop_front();
    Bucket& bucket = table_.at(index);
    CHECK(bucket.listed);
    CHECK(bucket.live == 0);
    bucket.listed = false;
    table_.set_use(index, use);
    check_level();
    return index;
}

void Allocator::check_level() {
    if (wanted() != 0) need_.notify();
}

std::uint64_t Allocator::wanted() const {
    if (free_.size() >= low_water_) return 0;
    return low_water_ - free_.size() + std::max<std::uint64_t>(8, table_.size() / 32);
}

bool Allocator::open_bucket(Stream stream) {
    if (!can_take_data()) {
        need_.notify();
        return false;
    }
    Open& open = open_[static_cast<std::size_t>(stream)];
    open.bucket = pop(Use::data);
    open.used = 0;
    table_.at(*open.bucket).open = true;
    table_.touch(*open.bucket);
    return true;
}

void Allocator::close_bucket(Stream stream) {
    Open& open = open_[static_cast<std::size_t>(stream)];
    table_.at(*open.bucket).open = false;
    open.bucket.reset();
}

std::optional<Space> Allocator::try_allocate(Stream stream, std::uint32_t sectors) {
    Open& open = open_[static_cast<std::size_t>(stream)];
    const std::uint32_t size = table_.geometry().bucket_sectors;
    const std::uint32_t block = table_.geometry().block_sectors;
    CHECK(sectors != 0 && sectors % block == 0);
    if (!open.bucket && !open_bucket(stream)) return std::nullopt;
    const BucketIndex index = *open.bucket;
    const std::uint32_t limit = ondisk::Key::kMaxSize / block * block;
    const std::uint32_t take = std::min({sectors, size - open.used, limit});
    Space space;
    space.ptr =
        ondisk::Ptr::make(table_.geometry().bucket_start(index) + open.used, table_.at(index).gen);
    space.sectors = take;
    ++table_.at(index).pins;
    open.used += take;
    if (size - open.used < block) close_bucket(stream);
    return space;
}

Task<Result<Space>> Allocator::allocate(Stream stream, std::uint32_t sectors) {
    const std::uint64_t fruitless_before = fruitless_;
    while (true) {
        if (down_) co_return fail(Errc::stopped, "the set is stopping");
        const std::optional<Space> space = try_allocate(stream, sectors);
        if (space) co_return *space;
        if (fruitless_ != fruitless_before) {
            co_return fail(Errc::no_space, "no bucket can be reclaimed");
        }
        co_await freed_.wait();
    }
}

void Allocator::unpin(ondisk::Ptr ptr) {
    Bucket& bucket = table_.of(ptr);
    CHECK(bucket.pins > 0);
    --bucket.pins;
}

Task<Result<BucketIndex>> Allocator::take_metadata(Use use) {
    while (free_.size() <= prio_reserve_) {
        if (down_) co_return fail(Errc::stopped, "the set is stopping");
        need_.notify();
        co_await freed_.wait();
    }
    co_return pop(use);
}

std::optional<BucketIndex> Allocator::take_prio() {
    if (free_.empty()) return std::nullopt;
    return pop(Use::prio);
}

void Allocator::free_metadata(BucketIndex index, bool pointed_at) {
    if (pointed_at) table_.at(index).gen = table_.at(index).gen.next();
    table_.set_use(index, Use::none);
    check_level();
}

void Allocator::release(BucketIndex index) {
    Bucket& bucket = table_.at(index);
    table_.set_use(index, Use::none);
    CHECK(bucket.live == 0);
    bucket.listed = true;
    free_.push_back(index);
    freed_.notify();
}

void Allocator::nothing_reclaimable() {
    ++fruitless_;
    freed_.notify();
}

void Allocator::shut_down() {
    down_ = true;
    need_.notify();
    freed_.notify();
}

}  // namespace uc::alloc
