#include "core/cached_volume.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error_text.h"
#include "core/labels.h"

namespace uc::core {

using ondisk::BackingState;
using ondisk::CacheMode;

namespace {
const std::string kNoName;
constexpr std::uint64_t kEverywhere = ~std::uint64_t{0};
}  // namespace

CachedVolume::CachedVolume(Services& services, VolumeIdentity identity, io::BlockDevice* device,
                           const ondisk::Superblock* superblock, bool attached)
    : services_(services),
      identity_(std::move(identity)),
      size_(identity_.flash_sectors),
      attached_(attached) {
    if (device == nullptr) return;
    backing_.emplace(*device, *superblock, services_.options.mutations);
    size_ = backing_->size_sectors();
    fills_.emplace(services_, *backing_, identity_.inode, stats_);
    writeback::Parts parts{
        .executor = services_.executor,
        .clock = services_.clock,
        .cache = services_.cache,
        .backing = *device,
        .tree = services_.tree,
        .table = services_.table,
        .allocator = services_.allocator,
        .backing_writes = backing_writes_,
        .inode = identity_.inode,
        .rate = rate_,
        .mutations = services_.options.mutations,
        .flush_keys = [this] { return flush_keys(); },
        .flush_backing = [this] { return flush_backing(); },
        .flush_failures = [this] { return backing_->flush_failures(); },
        .wrote_backing = [this](std::uint64_t from,
                                std::uint64_t to) { backing_->wrote(from, to); },
        .failed =
            [this] {
                if (trouble_) trouble_();
            },
        .refused =
            [this](const writeback::Trouble& trouble) {
                ++(trouble.of_cache ? services_.counters.cache_io_errors : stats_.io_errors);
            },
        .trouble_changed =
            [this] {
                if (writeback_changed_) writeback_changed_();
            },
        .knobs =
            [this] {
                writeback::Knobs knobs;
                knobs.running = options_.writeback_running;
                knobs.delay_s = options_.writeback_delay_s;
                knobs.paced =
                    options_.writeback_percent != 0 && !detaching_ && services_.space_waiters == 0;
                return knobs;
            },
    };
    writeback_.emplace(std::move(parts));
}

void CachedVolume::run(async::TaskGroup& group) {
    if (!backing_) return;
    fills_->run(group);
    writeback_->run(group);
    group.spawn(housekeeping());
}

void CachedVolume::stop() {
    stopping_ = true;
    if (fills_) fills_->stop();
    if (writeback_) writeback_->stop();
    tick_.notify();
}

Task<void> CachedVolume::quiesce() {
    while (in_flight_ != 0) {
        co_await idle_.wait();
    }
}

std::uint32_t CachedVolume::block_sectors() const {
    if (!attached_) return backing_->device().logical_block_sectors();
    return services_.table.geometry().block_sectors;
}

BackingState CachedVolume::state() const {
    return backing_ ? backing_->state() : BackingState::none;
}

CacheMode CachedVolume::cache_mode() const {
    return backing_ ? backing_->superblock().cache_mode() : CacheMode::writeback;
}

const std::string& CachedVolume::backing_name() const {
    return backing_ ? backing_->device().name() : kNoName;
}

std::uint64_t CachedVolume::dirty_sectors() const {
    return attached_ ? services_.table.dirty_sectors(identity_.inode) : 0;
}

const VolumeStats& CachedVolume::stats() const {
    if (writeback_) {
        const writeback::Counters& done = writeback_->counters();
        stats_.writeback_keys_done = done.keys_done;
        stats_.writeback_keys_failed = done.keys_failed;
        stats_.writeback_sectors = done.sectors;
        const policy::WritebackRate::Terms& terms = rate_.terms();
        stats_.rate_round = {terms.target, terms.proportional, terms.integral, terms.change,
                             (rate_.next() - services_.clock.now()) / std::chrono::milliseconds(1)};
    }
    return stats_;
}

std::string CachedVolume::writeback_trouble() const {
    if (!writeback_ || !writeback_->trouble() || dirty_sectors() == 0) return {};
    const writeback::Trouble& trouble = *writeback_->trouble();
    const bool cache = trouble.of_cache;
    return fmt::format("the {} device {}: {}", cache ? "cache" : "backing",
                       cache ? services_.cache.name() : backing_name(), error_text(trouble.error));
}

void CachedVolume::options_changed() {
    if (options_.writeback_rate_sectors != shown_rate_) {  // by hand, not by the controller
        rate_.set_rate(std::max<std::uint64_t>(1, options_.writeback_rate_sectors));
        shown_rate_ = options_.writeback_rate_sectors;
    }
    if (writeback_) writeback_->kick();
    tick_.notify();
}

Task<Result<void>> CachedVolume::set_cache_mode(CacheMode mode) {
    const InFlight counted(*this);
    if (!backing_) co_return fail(Errc::invalid, "a flash-only volume has no cache mode");
    if (read_only()) co_return fail(Errc::read_only, "the set is open for reading only");
    co_await backing_->superblock_lock().lock();
    const async::Mutex::Guard guard(backing_->superblock_lock());
    const CacheMode before = cache_mode();
    backing_->edit().set_cache_mode(mode);
    const Result<void> saved = co_await backing_->save();
    if (!saved) backing_->edit().set_cache_mode(before);
    co_return saved;
}

Task<Result<void>> CachedVolume::set_label(std::string label) {
    const InFlight counted(*this);
    if (read_only()) co_return fail(Errc::read_only, "the set is open for reading only");
    const Result<void> usable = services_.check_label(label, identity_.uuid);
    CO_OK(usable);
    if (backing_) {
        co_await backing_->superblock_lock().lock();
        const async::Mutex::Guard guard(backing_->superblock_lock());
        const auto before = backing_->superblock().label;
        backing_->edit().label = label_bytes(label);
        const Result<void> saved = co_await backing_->save();
        if (!saved) backing_->edit().label = before;
        CO_OK(saved);
    }
    identity_.label = std::move(label);
    if (!attached_) co_return Result<void>{};
    co_return co_await services_.label_changed(identity_.inode, identity_.label);
}

Task<Result<void>> CachedVolume::write_back_all() {
    const InFlight counted(*this);
    if (!backing_ || !attached_) co_return Result<void>{};
    if (read_only()) co_return fail(Errc::read_only, "the set is open for reading only");
    // Else somebody who writes as fast as we do would keep us here.
    pause_dirtying();
    const Result<void> done = co_await write_back_dirty();
    resume_dirtying();
    co_return done;
}

Task<Result<void>> CachedVolume::write_back_dirty() {
    CO_OK(co_await writeback_->drain());
    co_await become_clean();
    co_return co_await flush_backing();
}

Task<Result<void>> CachedVolume::begin_detach() {
    const InFlight counted(*this);
    if (!backing_) co_return fail(Errc::invalid, "a flash-only volume cannot be detached");
    if (!attached_) co_return fail(Errc::invalid, "the volume is not attached");
    if (detaching_) co_return fail(Errc::busy, "the volume is being detached already");
    detaching_ = true;
    if (services_.options.mutations.has(Mutation::detach_with_dirty)) co_return Result<void>{};
    const Result<void> drained = co_await write_back_all();
    if (!drained) detaching_ = false;
    co_return drained;
}

Task<Result<void>> CachedVolume::join(Task<Result<Inode>> enter) {
    // What goes past the cache must have ended: it does not know of fills.
    async::RangeLock::Hold writes(writes_, 0, kEverywhere);
    co_await writes.acquire();
    if (attached_) co_return fail(Errc::busy, "the volume is attached already");
    const Result<Inode> entered = co_await std::move(enter);
    if (!entered) co_return tl::unexpected(entered.error());
    identity_.inode = *entered;
    attached_ = true;
    detaching_ = false;
    co_return Result<void>{};
}

Task<Result<void>> CachedVolume::cut_off(Task<Result<void>> forget) {
    // No request that changes anything is in flight while the volume changes its nature.
    async::RangeLock::Hold writes(writes_, 0, kEverywhere);
    co_await writes.acquire();
    async::RangeLock::Hold backing(backing_writes_, 0, kEverywhere);
    co_await backing.acquire();
    const bool whatever = services_.options.mutations.has(Mutation::detach_with_dirty);
    if (dirty_sectors() != 0 && !whatever)
        co_return fail(Errc::busy, "dirty data appeared during the detach");
    CO_OK(co_await flush_backing());
    fills_->cancel(0, kEverywhere);
    const Result<void> forgotten = co_await std::move(forget);
    if (forgotten) attached_ = false;
    co_return forgotten;
}

}  // namespace uc::core
