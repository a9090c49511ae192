#include "alloc/bucket_table.h"

#include <algorithm>

#include "base/check.h"

namespace uc::alloc {

using ondisk::Key;

BucketTable::BucketTable(const ondisk::Geometry& geometry, Mutations mutations)
    : geometry_(geometry),
      mutations_(mutations),
      buckets_(geometry.nbuckets),
      ageing_credit_(geometry.nbuckets * geometry.bucket_sectors / 1024) {
    for (BucketIndex b = 0; b < geometry.first_bucket; ++b) set_use(b, Use::reserved);
    for (std::uint32_t i = 0; i < geometry.njournal; ++i) {
        set_use(geometry.first_bucket + i, Use::journal);
    }
}

void BucketTable::add(const Key& key) {
    if (!key.has_ptr() || stale(key.ptr())) return;
    Bucket& bucket = of(key.ptr());
    const bool used = counts_as_used(bucket);
    bucket.live += key.size();
    if (bucket.use == Use::none) bucket.use = Use::data;
    if (key.dirty()) {
        bucket.dirty += key.size();
        if (key.inode() >= dirty_by_inode_.size()) dirty_by_inode_.resize(key.inode() + 1);
        dirty_by_inode_[key.inode()] += key.size();
    }
    in_use_ += counts_as_used(bucket) - used;
}

void BucketTable::remove(const Key& key) {
    if (!key.has_ptr() || stale(key.ptr())) return;
    Bucket& bucket = of(key.ptr());
    const bool used = counts_as_used(bucket);
    CHECK(bucket.live >= key.size());
    bucket.live -= key.size();
    if (key.dirty()) {
        CHECK(bucket.dirty >= key.size());
        bucket.dirty -= key.size();
        CHECK(dirty_by_inode_[key.inode()] >= key.size());
        dirty_by_inode_[key.inode()] -= key.size();
    }
    if (used && !counts_as_used(bucket)) --in_use_;
}

void BucketTable::clear_accounts() {
    dirty_by_inode_.clear();
    in_use_ = 0;
    for (Bucket& bucket : buckets_) {
        bucket.live = 0;
        bucket.dirty = 0;
        in_use_ += counts_as_used(bucket);
    }
}

void BucketTable::lose_generations() {
    generations_lost_ = true;
    for (Bucket& bucket : buckets_) bucket.gen = bucket.durable_gen = bucket.last_gc = Gen();
}

void BucketTable::learn(ondisk::Ptr ptr) {
    Bucket& bucket = of(ptr);
    if (generations_lost_ && !bucket.seen) {
        bucket.last_gc = ptr.gen();
    } else if (stale(ptr)) {
        return;
    }
    bucket.gen = bucket.durable_gen = ptr.gen();
    bucket.seen = true;
}

void BucketTable::set_use(BucketIndex index, Use use) {
    Bucket& bucket = buckets_[index];
    in_use_ -= counts_as_used(bucket);
    bucket.use = use;
    in_use_ += counts_as_used(bucket);
}

void BucketTable::invalidate(BucketIndex index) {
    Bucket& bucket = buckets_[index];
    CHECK(bucket.dirty == 0);
    CHECK(bucket.pins == 0);
    set_use(index, Use::none);
    bucket.live = 0;
    if (mutations_.has(Mutation::gen_kept)) return;
    bucket.gen = bucket.gen.next();
}

bool BucketTable::reclaimable(BucketIndex index) const {
    const Bucket& bucket = buckets_[index];
    if (bucket.use != Use::data && bucket.use != Use::none) return false;
    if (bucket.dirty != 0 || bucket.pins != 0 || bucket.open || bucket.listed) return false;
    return bucket.gen.distance_from(bucket.last_gc) < kMaxGenDistance;
}

void BucketTable::account_request(std::uint64_t sectors) {
    const std::uint64_t period = std::max<std::uint64_t>(
        1, std::uint64_t{buckets_.size()} * geometry_.bucket_sectors / 1024);
    while (sectors > ageing_credit_) {
        sectors -= ageing_credit_;
        ageing_credit_ = period;
        ++epoch_;
    }
    ageing_credit_ -= sectors;
}

std::uint16_t BucketTable::prio(BucketIndex index) const {
    const Bucket& bucket = buckets_[index];
    if (bucket.use == Use::node || bucket.use == Use::prio || bucket.use == Use::uuid) {
        return ondisk::kPrioMetadata;
    }
    const std::int64_t age = std::int64_t{epoch_} - bucket.touched;
    return static_cast<std::uint16_t>(
        std::clamp<std::int64_t>(ondisk::kPrioInitial - age, 0, ondisk::kPrioInitial));
}

void BucketTable::set_prio(BucketIndex index, std::uint16_t prio) {
    const std::int32_t capped = std::min<std::int32_t>(prio, ondisk::kPrioInitial);
    buckets_[index].touched = epoch_ - (ondisk::kPrioInitial - capped);
}

}  // namespace uc::alloc
