// Opening a set (format sections 13.1, 13.4).
//
// Nothing is written before everything was read and judged: a set that is refused keeps every byte.
// What a crash left in the journal goes into the index in memory and pins its old entries there, as
// if it had just been inserted; the background writes it to leaves in its own time.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/prio_table.h"
#include "core/open_set.h"
#include "io/buffer.h"
#include "ondisk/validate.h"

namespace uc::core {

using ondisk::Key;

namespace {

// Below this a node cannot be appended to and a journal slot holds a single entry.
constexpr std::uint32_t kMinBlocks = 4;
constexpr unsigned kMaxDepth = 8;  // more than any device can need

ondisk::Geometry geometry_of(const ondisk::Superblock& superblock) {
    ondisk::Geometry geometry = superblock.geometry();
    if (!superblock.sync()) {
        geometry.njournal = ondisk::Geometry::journal_buckets_for(geometry.nbuckets);
    }
    return geometry;
}

tl::unexpected<Error> refuse(Report& report, const std::string& device, std::string reason,
                             Error error) {
    report.refusal = fmt::format("{}: {}", device, reason);
    return tl::unexpected(error);
}

}  // namespace

OpenSet::OpenSet(Env env, io::BlockDevice& cache, SetOptions options,
                 const ondisk::Superblock& superblock)
    : env_(env),
      cache_(cache),
      options_(options),
      superblock_(superblock),
      geometry_(geometry_of(superblock)),
      magic_(superblock.set_uuid.magic()),
      table_(geometry_, options_.mutations),
      allocator_(table_),
      journal_(env.executor, env.clock, cache, geometry_, magic_, options_.journal_delay_ms),
      tree_(index::TreeParts{env.executor, env.clock, env.rng, cache, table_, allocator_, journal_,
                             magic_, options_.node_cache_bytes, options_.mutations}),
      collector_(env.clock, table_, tree_),
      services_{.executor = env.executor,
                .clock = env.clock,
                .rng = env.rng,
                .cache = cache_,
                .table = table_,
                .allocator = allocator_,
                .journal = journal_,
                .tree = tree_,
                .collector = collector_,
                .congestion = congestion_,
                .options = options_,
                .counters = counters_},
      volume_tasks_(env.executor),
      set_tasks_(env.executor) {
    journal_.mutate(options_.mutations);
    journal_.on_pressure([this](JournalSeq seq) { tree_.want_written(seq); });
    connect_services();
}

// What volumes ask of each other.
void OpenSet::connect_services() {
    services_.foreground = [this] {
        for (const auto& volume : volumes_) volume->foreground_io();
    };
    services_.all_backing_sectors = [this] {
        std::uint64_t sum = 0;
        for (const auto& volume : volumes_) {
            if (volume->attached() && !volume->flash_only()) sum += volume->size_sectors();
        }
        return sum;
    };
    services_.flash_only_dirty = [this] {
        std::uint64_t sum = 0;
        for (const auto& volume : volumes_) {
            if (volume->flash_only()) sum += volume->dirty_sectors();
        }
        return sum;
    };
    services_.cached_dirty = [this] {
        std::uint64_t sum = 0;
        for (const auto& volume : volumes_) {
            if (!volume->flash_only()) sum += volume->dirty_sectors();
        }
        return sum;
    };
    services_.written_back = [this] {
        std::uint64_t sum = 0;
        for (const auto& volume : volumes_) sum += volume->stats().writeback_sectors;
        return sum;
    };
    services_.space_wanted = [this] {
        for (const auto& volume : volumes_) volume->free_space();
    };
    services_.check_label = [this](const std::string& label, const ondisk::Uuid& self) {
        return check_label(label, self);
    };
    services_.label_changed = [this](Inode inode, std::string label) {
        return change_label(inode, std::move(label));
    };
}

Task<Result<std::unique_ptr<CacheSet>>> CacheSet::open(Env env, io::BlockDevice& cache,
                                                       SetOptions options, Report& report) {
    CO_TRY(std::unique_ptr<CacheSet> set, co_await OpenSet::open(env, cache, options, report));
    co_return std::move(set);
}

Task<Result<std::unique_ptr<OpenSet>>> OpenSet::open(Env env, io::BlockDevice& cache,
                                                     SetOptions options, Report& report) {
    io::Buffer bytes(ondisk::kSuperblockBytes);
    const Result<void> read = co_await cache.read(ondisk::kSuperblockSector, bytes.span());
    if (!read)
        co_return refuse(report, cache.name(), "the superblock cannot be read", read.error());
    const auto superblock = ondisk::decode_superblock(bytes.span(), cache.size_sectors(),
                                                      cache.logical_block_sectors());
    if (!superblock) {
        co_return refuse(report, cache.name(),
                         fmt::format("superblock: {}", superblock.error().what),
                         superblock.error());
    }
    if (!superblock->is_cache()) {
        co_return refuse(report, cache.name(), "this is a backing device, not a cache device",
                         Error{Errc::invalid, 0, "not a cache device"});
    }
    auto set = std::make_unique<OpenSet>(env, cache, options, *superblock);
    if (superblock->sync()) {
        CO_OK(co_await set->recover(report));
    } else if (options.read_only) {
        co_return refuse(report, cache.name(), "the cache is blank: there is nothing to read",
                         Error{Errc::read_only, 0, "blank cache"});
    } else {
        CO_OK(co_await set->initialise(report));
    }
    CO_OK(co_await set->start(report));
    co_return std::move(set);
}

Task<Result<void>> OpenSet::recover(Report& report) {
    if (geometry_.bucket_sectors < kMinBlocks * geometry_.block_sectors && !options_.read_only) {
        co_return refuse(
            report, cache_.name(),
            fmt::format("a bucket has fewer than {} blocks: such sets can only be opened "
                        "read-only",
                        kMinBlocks),
            Error{Errc::unsupported, 0, "bucket too small"});
    }
    if (!options_.read_only && !options_.mutations.has(Mutation::open_without_cache_flush)) {
        // I11: what a dead process has left in the device's cache must not be taken for durable.
        const Result<void> flushed = co_await cache_.flush();
        if (!flushed) {
            co_return refuse(report, cache_.name(), "the device cannot be flushed",
                             flushed.error());
        }
    }
    journal::Recovered recovered;
    const Result<void> ring = co_await journal::read_ring(
        cache_, geometry_, magic_, superblock_.discard(), recovered, options_.mutations);
    if (!ring) {
        const std::string why =
            recovered.problem.empty() ? std::string(ring.error().what) : recovered.problem;
        co_return refuse(report, cache_.name(), "journal: " + why, ring.error());
    }
    CO_OK(co_await load_roots(recovered, report));
    CO_OK(co_await load_index(recovered, report));
    allocator_.list_unreferenced();
    if (table_.generations_lost()) allocator_.list_for_table();
    std::size_t keys = 0;
    for (const ondisk::Jset& entry : recovered.entries) keys += entry.keys.size();
    report.notes.push_back(fmt::format("journal replay done, {} keys in {} entries, seq {}", keys,
                                       recovered.entries.size(), recovered.entries.back().seq));
    co_return Result<void>{};
}

// Priority table, uuid table, and where the tree starts.
Task<Result<void>> OpenSet::load_roots(const journal::Recovered& recovered, Report& report) {
    const ondisk::Jset& newest = recovered.entries.back();
    const Error corrupt{Errc::corrupt, 0, "bad root in the journal"};
    const auto bad = [&](const char* which, const char* why) {
        return refuse(report, cache_.name(),
                      fmt::format("journal entry {}: {}: {}", newest.seq, which, why), corrupt);
    };
    const Result<void> root = ondisk::validate_node_key(newest.btree_root, geometry_);
    if (!root) co_return bad("bad btree root", root.error().what);
    if (newest.btree_root.pos() != ondisk::kPosMax)
        co_return bad("bad btree root", "wrong position");
    if (newest.btree_level > kMaxDepth) co_return bad("bad btree root", "impossible depth");
    const Result<void> uuid = ondisk::validate_node_key(newest.uuid_bucket, geometry_);
    if (!uuid) co_return bad("bad uuid pointer", uuid.error().what);
    std::string problem;
    auto members =
        co_await alloc::read_prio_table(cache_, newest.prio_bucket[0], magic_, table_, problem);
    if (!members) {
        table_.lose_generations();
        report.notes.push_back(
            problem +
            ": rebuilt from the index; all dirty data is kept, the clean data in the "
            "cache is dropped");
        ++counters_.prio_tables_rebuilt;
        members = std::vector<BucketIndex>{};
    }
    for (const BucketIndex member : *members) table_.set_use(member, alloc::Use::prio);
    reclaimer_.emplace(
        gc::ReclaimParts{env_.executor, env_.clock, env_.rng, cache_, table_, allocator_, journal_,
                         magic_, superblock_, options_.mutations},
        *members);
    co_return co_await load_uuids(newest, report);
}

Task<Result<void>> OpenSet::load_uuids(const ondisk::Jset& newest, Report& report) {
    const ondisk::Ptr ptr = newest.uuid_bucket.ptr();
    io::Buffer bytes(geometry_.metadata_bytes());
    const Result<void> read = co_await cache_.read(ptr.sector(), bytes.span());
    if (!read) {
        co_return refuse(report, cache_.name(),
                         fmt::format("uuid table: bucket {} cannot be read", table_.bucket_of(ptr)),
                         read.error());
    }
    uuids_ = ondisk::decode_uuid_table(bytes.span(), newest.version, geometry_);
    uuid_bucket_ = table_.bucket_of(ptr);
    table_.learn(ptr);
    table_.set_use(*uuid_bucket_, alloc::Use::uuid);
    co_return Result<void>{};
}

Task<Result<void>> OpenSet::load_index(const journal::Recovered& recovered, Report& report) {
    const ondisk::Jset& newest = recovered.entries.back();
    std::string problem;
    const Result<void> loaded =
        co_await tree_.load(newest.btree_root, newest.btree_level, recovered.entries, problem);
    if (!loaded) co_return refuse(report, cache_.name(), problem, loaded.error());
    journal::Roots roots;
    roots.uuid_bucket = newest.uuid_bucket;
    roots.btree_root = newest.btree_root;
    roots.btree_level = newest.btree_level;
    roots.prio_bucket = newest.prio_bucket[0];
    journal_.start_recovered(recovered, roots);
    std::vector<const ondisk::Jset*> order;
    for (const ondisk::Jset& entry : recovered.entries) order.push_back(&entry);
    if (options_.mutations.has(Mutation::replay_reversed)) std::ranges::reverse(order);
    const bool skip = options_.mutations.has(Mutation::replay_skips_entry);
    for (const ondisk::Jset* entry : order) {
        if (!skip || entry != order.front()) {
            const Result<void> replayed = co_await tree_.replay(*entry, problem);
            if (!replayed) co_return refuse(report, cache_.name(), problem, replayed.error());
        }
        journal_.unpin(entry->seq);
    }
    if (table_.generations_lost()) {
        const Result<void> rebuilt = co_await rebuild_generations(problem);
        if (!rebuilt) co_return refuse(report, cache_.name(), problem, rebuilt.error());
    }
    Holdings holdings;
    const auto see = [&holdings](const Key& key) { holdings.add(key); };
    const Result<void> accounted = co_await tree_.account(see, problem);
    if (!accounted) co_return refuse(report, cache_.name(), problem, accounted.error());
    if (tree_.stats().torn_appends != 0) {
        report.notes.push_back(
            fmt::format("b-tree: {} torn appends were dropped; the journal has their keys",
                        tree_.stats().torn_appends));
    }
    const std::string damage = uuid_damage(holdings);
    if (!damage.empty()) {
        co_return refuse(report, cache_.name(), damage,
                         Error{Errc::corrupt, 0, "the uuid table is damaged"});
    }
    co_return Result<void>{};
}

// Old entries of a set with the same uuid must not be taken for ours (weakness 11.20). Not only
// those at the beginning of a bucket: a new entry there leads a reader to the old ones behind it.
Task<Result<void>> OpenSet::zero_journal() {
    for (std::uint32_t i = 0; i < geometry_.njournal; ++i) {
        const std::uint64_t at = geometry_.bucket_start(geometry_.first_bucket + i);
        CO_OK(co_await cache_.write_zeroes(at, geometry_.bucket_sectors));
    }
    co_return Result<void>{};
}

// Everything is durable before the superblock says that there is a set (13.4).
Task<Result<void>> OpenSet::initialise(Report& report) {
    if (geometry_.bucket_sectors < kMinBlocks * geometry_.block_sectors) {
        co_return refuse(report, cache_.name(),
                         fmt::format("a bucket must have at least {} blocks", kMinBlocks),
                         Error{Errc::unsupported, 0, "bucket too small"});
    }
    report.notes.push_back("the cache is blank: a new set is initialised on it");
    superblock_.keys = static_cast<std::uint16_t>(geometry_.njournal);
    for (std::uint32_t i = 0; i < geometry_.njournal; ++i) {
        superblock_.d[i] = geometry_.first_bucket + i;
    }
    allocator_.list_unreferenced();
    uuids_.assign(geometry_.uuid_entries(), ondisk::UuidEntry{});
    reclaimer_.emplace(
        gc::ReclaimParts{env_.executor, env_.clock, env_.rng, cache_, table_, allocator_, journal_,
                         magic_, superblock_, options_.mutations},
        std::vector<BucketIndex>{});
    CO_OK(co_await zero_journal());
    CO_TRY(const BucketIndex prio, co_await reclaimer_->write_table());
    CO_TRY(const BucketIndex uuid, co_await allocator_.take_metadata(alloc::Use::uuid));
    const io::Buffer table = io::Buffer::zeroed(geometry_.metadata_bytes());
    const std::uint64_t uuid_sector = geometry_.bucket_start(uuid);
    CO_OK(co_await cache_.write(uuid_sector, table.span()));
    CO_TRY(const Key root, co_await tree_.create());
    CO_OK(co_await cache_.flush());
    uuid_bucket_ = uuid;
    journal::Roots roots;
    const ondisk::Ptr uuid_ptr = ondisk::Ptr::make(uuid_sector, table_.at(uuid).gen);
    roots.uuid_bucket = Key::pointer(ondisk::kPosZero, geometry_.metadata_sectors(), uuid_ptr);
    roots.btree_root = root;
    roots.btree_level = 0;
    roots.prio_bucket = prio;
    journal_.start_blank(roots);
    superblock_.set_sync(true);
    co_return Result<void>{};
}

// Background work, and the superblock that every registration writes (1.9).
Task<Result<void>> OpenSet::start(Report& report) {
    add_flash_volumes();
    if (options_.read_only) co_return Result<void>{};
    journal_.run(set_tasks_);
    tree_.run(set_tasks_);
    reclaimer_->on_starved([this] { collector_.request(); });
    collector_.run(set_tasks_);
    const Result<void> saved = co_await write_first();
    if (saved) {
        reclaimer_->run(set_tasks_);
        volume_tasks_.spawn(drop_orphans());
        co_return saved;
    }
    co_await end_tasks();
    co_return refuse(report, cache_.name(),
                     "the superblock, the first journal entry or the priority table "
                     "cannot be written",
                     saved.error());
}

Task<Result<void>> OpenSet::write_first() {
    if (journal_.durable_seq() == 0) {  // a blank set
        CO_OK(co_await journal_.flush(journal_.open_seq()));
    }
    if (table_.generations_lost()) {
        CO_OK(co_await reclaimer_->replace_table());
    }
    co_return co_await save_superblock();
}

Task<Result<void>> OpenSet::save_superblock() {
    co_await superblock_lock_.lock();
    const async::Mutex::Guard guard(superblock_lock_);
    ++superblock_.seq;
    superblock_.last_mount = env_.clock.wall_seconds();
    superblock_.version = std::max<std::uint64_t>(superblock_.version, 3);
    io::Buffer buffer(ondisk::kSuperblockBytes);
    const auto bytes = ondisk::encode_superblock(superblock_);
    std::ranges::copy(bytes, buffer.data());
    co_return co_await cache_.write(ondisk::kSuperblockSector, buffer.span(), true);
}

}  // namespace uc::core
