#include "gc/reclaimer.h"

#include <algorithm>
#include <utility>

#include "alloc/prio_table.h"
#include "io/timed_wait.h"

namespace uc::gc {

namespace {

constexpr BucketIndex kSlice = 16384;  // buckets looked at between two yields
constexpr Duration kRetry = std::chrono::milliseconds(20);

}  // namespace

Reclaimer::Reclaimer(const ReclaimParts& parts, std::vector<BucketIndex> members)
    : parts_(parts),
      members_(std::move(members)),
      fifo_(parts.table.geometry().first_bucket + parts.table.geometry().njournal,
            parts.table.size()) {}

void Reclaimer::run(async::TaskGroup& group) {
    group.spawn(loop());
}

void Reclaimer::stop() {
    stopping_ = true;
    parts_.allocator.need().notify();
}

Task<void> Reclaimer::loop() {
    while (!stopping_) {
        const std::uint64_t wanted = parts_.allocator.wanted();
        if (wanted == 0) {
            co_await parts_.allocator.need().wait();
            continue;
        }
        const std::uint64_t before = invalidated_;
        const Result<void> done = co_await pass(wanted);
        if (!done) {
            failed_ = true;
            parts_.journal.give_up();
            parts_.allocator.shut_down();
            co_return;
        }
        if (invalidated_ != before) continue;
        parts_.allocator.nothing_reclaimable();
        if (starved_) starved_();
        co_await parts_.clock.sleep(kRetry);
    }
}

Task<Result<void>> Reclaimer::pass(std::uint64_t wanted) {
    std::vector<BucketIndex> victims;
    co_await choose(wanted, victims);
    invalidate(victims);
    if (victims.empty()) co_return Result<void>{};
    co_return co_await make_ready(victims);
}

// Another pass may need buckets for its own table at once: they are made ready with this one.
Task<Result<void>> Reclaimer::replace_table() {
    std::vector<BucketIndex> victims;
    co_await choose(parts_.allocator.wanted(), victims);
    invalidate(victims);
    co_return co_await make_ready(victims);
}

Task<Result<void>> Reclaimer::make_ready(std::vector<BucketIndex>& victims) {
    const Mutations mutations = parts_.mutations;
    const bool discards = parts_.superblock.discard() && parts_.cache.supports_discard();
    if (mutations.has(Mutation::reuse_before_table) || mutations.has(Mutation::table_after_reuse)) {
        for (const BucketIndex victim : victims) parts_.allocator.release(victim);
        if (mutations.has(Mutation::reuse_before_table)) co_return Result<void>{};
    }
    if (discards && mutations.has(Mutation::discard_before_table)) {
        co_await discard(victims);
    }
    CO_OK(co_await make_durable());
    if (mutations.has(Mutation::table_after_reuse)) co_return Result<void>{};
    if (discards) {
        co_await discard(victims);
    }
    for (const BucketIndex victim : victims) parts_.allocator.release(victim);
    co_return Result<void>{};
}

// Tells the device what it need not keep. It may fail to listen; nothing depends on it.
Task<void> Reclaimer::discard(std::vector<BucketIndex>& victims) {
    const ondisk::Geometry& geometry = parts_.table.geometry();
    std::ranges::sort(victims);
    for (std::size_t i = 0; i < victims.size();) {
        std::size_t end = i + 1;
        while (end < victims.size() && victims[end] == victims[end - 1] + 1) ++end;
        const std::uint64_t sectors = (end - i) * std::uint64_t{geometry.bucket_sectors};
        const std::uint64_t first = geometry.bucket_start(victims[i]);
        const Result<void> done = co_await parts_.cache.discard(first, sectors);
        discards_failed_ += !done;
        i = end;
    }
}

// What was chosen may have been used again while the scan went on.
void Reclaimer::invalidate(std::vector<BucketIndex>& victims) {
    std::erase_if(victims, [this](BucketIndex victim) {
        if (!parts_.table.reclaimable(victim)) return true;  // also what is in the list twice
        parts_.table.invalidate(victim);
        parts_.table.at(victim).listed = true;
        return false;
    });
    invalidated_ += victims.size();
}

Task<Result<void>> Reclaimer::make_durable() {
    const std::vector<BucketIndex> old = members_;
    std::vector<Gen> gens;
    gens.reserve(parts_.table.size());
    for (BucketIndex b = 0; b < parts_.table.size(); ++b) gens.push_back(parts_.table.at(b).gen);
    CO_TRY(const BucketIndex first, co_await write_table());
    parts_.journal.set_prio_bucket(first);
    const bool early = parts_.mutations.has(Mutation::old_table_freed_early);
    if (early) {
        for (const BucketIndex bucket : old) parts_.allocator.release(bucket);
    }
    if (!parts_.mutations.has(Mutation::reuse_before_entry)) {
        CO_OK(co_await parts_.journal.flush(parts_.journal.open_seq()));
    }
    for (BucketIndex b = 0; b < parts_.table.size(); ++b) parts_.table.at(b).durable_gen = gens[b];
    if (early) co_return Result<void>{};
    // Nothing but the old journal entry pointed at the old table, and no pointer has its
    // generation.
    for (const BucketIndex bucket : old) parts_.allocator.release(bucket);
    co_return Result<void>{};
}

Task<Result<BucketIndex>> Reclaimer::write_table() {
    std::vector<BucketIndex> members;
    while (members.size() < parts_.table.geometry().prio_buckets()) {
        const std::optional<BucketIndex> bucket = parts_.allocator.take_prio();
        if (!bucket) {
            for (const BucketIndex taken : members) parts_.allocator.release(taken);
            co_return fail(Errc::no_space, "no bucket left for the priority table");
        }
        members.push_back(*bucket);
    }
    CO_OK(co_await alloc::write_prio_table(parts_.cache, members, ++seq_, parts_.set_magic,
                                           parts_.table));
    ++table_writes_;
    table_sectors_ += members.size() * parts_.table.geometry().metadata_sectors();
    members_ = std::move(members);
    co_return members_.front();
}

// Empty and freed buckets first, whatever the policy; then clean data.
Task<void> Reclaimer::choose(std::uint64_t wanted, std::vector<BucketIndex>& victims) {
    std::vector<std::pair<std::uint64_t, BucketIndex>> scored;
    const alloc::BucketTable& table = parts_.table;
    bool generations_block = false;
    std::uint16_t min_prio = ondisk::kPrioInitial;
    for (BucketIndex b = 0; b < table.size(); ++b) {
        if (b % kSlice == kSlice - 1) {
            co_await async::Yield();
        }
        const alloc::Bucket& bucket = table.at(b);
        if (!table.reclaimable(b)) {
            generations_block |= bucket.use == alloc::Use::data && bucket.dirty == 0 &&
                                 bucket.gen.distance_from(bucket.last_gc) >= alloc::kMaxGenDistance;
            continue;
        }
        if (bucket.live == 0) {
            if (victims.size() < wanted) victims.push_back(b);
            continue;
        }
        min_prio = std::min(min_prio, table.prio(b));
        scored.emplace_back(0, b);
    }
    if (generations_block && starved_) starved_();
    if (victims.size() >= wanted) co_return;
    const ondisk::Replacement policy = parts_.superblock.replacement();
    if (policy == ondisk::Replacement::fifo) {
        choose_fifo(wanted, victims);
    } else if (policy == ondisk::Replacement::random) {
        choose_random(wanted, victims);
    } else {
        for (auto& [score, b] : scored) {
            score = policy::lru_score(table.prio(b), min_prio, table.at(b).live);
        }
        const std::size_t take = std::min<std::size_t>(wanted - victims.size(), scored.size());
        std::ranges::nth_element(scored, scored.begin() + static_cast<std::ptrdiff_t>(take));
        for (std::size_t i = 0; i < take; ++i) victims.push_back(scored[i].second);
    }
}

void Reclaimer::choose_fifo(std::uint64_t wanted, std::vector<BucketIndex>& victims) {
    for (std::uint32_t looks = 0; looks < parts_.table.size() && victims.size() < wanted; ++looks) {
        const std::optional<BucketIndex> b = fifo_.take();
        if (b && parts_.table.reclaimable(*b) && parts_.table.at(*b).live != 0) {
            victims.push_back(*b);
        }
    }
}

void Reclaimer::choose_random(std::uint64_t wanted, std::vector<BucketIndex>& victims) {
    const ondisk::Geometry& geometry = parts_.table.geometry();
    const BucketIndex first = geometry.first_bucket + geometry.njournal;
    std::vector<bool> taken(parts_.table.size());
    for (std::uint32_t looks = 0; looks < 4 * parts_.table.size() && victims.size() < wanted;
         ++looks) {
        const std::optional<BucketIndex> b =
            policy::random_bucket(parts_.rng, first, parts_.table.size());
        if (!b || taken[*b] || !parts_.table.reclaimable(*b)) continue;
        if (parts_.table.at(*b).live == 0) continue;  // chosen already
        taken[*b] = true;
        victims.push_back(*b);
    }
}

}  // namespace uc::gc
