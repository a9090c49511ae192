#include "core/fill.h"

#include <algorithm>
#include <utility>

#include "io/timed_wait.h"

namespace uc::core {

using ondisk::Key;

namespace {
constexpr std::uint64_t kMaxBytes = std::uint64_t{32} << 20;  // of all fills under way
constexpr Duration kFlushDelay = std::chrono::seconds(1);
}  // namespace

Fills::Fills(Services& services, Backing& backing, const Inode& inode, VolumeStats& stats)
    : services_(services), backing_(backing), inode_(inode), stats_(stats) {}

Fills::~Fills() {
    deferred_.clear();
}

void Fills::run(async::TaskGroup& group) {
    group_ = &group;
    group.spawn(committer());
}

void Fills::stop() {
    stopping_ = true;
    wake_.notify();
}

std::unique_ptr<Fill> Fills::begin(std::uint64_t from, std::uint64_t to) {
    const std::uint64_t bytes = (to - from) * kSectorBytes;
    if (stopping_ || group_ == nullptr || bytes_ + bytes > kMaxBytes) return nullptr;
    if (backing_.doubtful(from, to)) return nullptr;  // the clean copy might outlive the original
    auto fill = std::make_unique<Fill>();
    fill->from = from;
    fill->to = to;
    fill->data = io::Buffer(bytes);
    fill->insert_before(active_);
    bytes_ += bytes;
    return fill;
}

void Fills::cancel(std::uint64_t from, std::uint64_t to) {
    if (services_.options.mutations.has(Mutation::fill_not_cancelled)) return;
    for (async::WaitLink* link = active_.next; link != &active_; link = link->next) {
        Fill& fill = *static_cast<Fill*>(link);
        if (fill.from < to && from < fill.to) fill.cancelled = true;
    }
}

void Fills::finish(std::unique_ptr<Fill> fill) {
    group_->spawn(store(std::move(fill)));
}

// The end of a fill, whatever became of it.
void Fills::release(Fill& fill) {
    for (const Key& key : fill.keys) services_.allocator.unpin(key.ptr());
    fill.keys.clear();
    bytes_ -= (fill.to - fill.from) * kSectorBytes;
    fill.unlink();
}

void Fills::flush_failed() {
    cancel(0, ~std::uint64_t{0});
    give_way();
}

void Fills::give_way() {
    for (const auto& fill : deferred_) release(*fill);
    deferred_.clear();
}

Task<void> Fills::store(std::unique_ptr<Fill> fill) {
    const Result<void> written = co_await write_data(*fill);
    fill->data = io::Buffer();
    if (!written || fill->cancelled) {
        stats_.cache_miss_collisions += fill->cancelled;
        release(*fill);
        co_return;
    }
    const bool early = services_.options.mutations.has(Mutation::fill_before_flush);
    if (!early && !backing_.durable(fill->from, fill->to)) {
        fill->needs_flush = backing_.next_flush();
    }
    if (fill->needs_flush > backing_.done_flush()) {
        deferred_.push_back(std::move(fill));
        if (deferred_.size() == 1) wake_.notify();
        co_return;
    }
    const Result<void> inserted = co_await insert(*fill);
    if (!inserted) services_.counters.cache_io_errors += inserted.error().code == Errc::io;
    release(*fill);
}

// Without a free bucket the rest is simply not cached.
Task<Result<void>> Fills::write_data(Fill& fill) {
    for (const Fill::Piece& piece : fill.pieces) {
        std::uint64_t at = piece.from;
        while (at < piece.to && !fill.cancelled) {
            const std::uint32_t want = static_cast<std::uint32_t>(
                std::min<std::uint64_t>(piece.to - at, services_.table.geometry().bucket_sectors));
            const std::optional<alloc::Space> space =
                services_.allocator.try_allocate(alloc::Stream::clean, want);
            if (!space) co_return Result<void>{};
            fill.keys.push_back(
                Key::extent(inode_, at + space->sectors, space->sectors, space->ptr, false));
            const auto part = fill.data.span().subspan((at - fill.from) * kSectorBytes,
                                                       space->sectors * kSectorBytes);
            CO_OK(co_await services_.cache.write(space->ptr.sector(), part));
            at += space->sectors;
        }
    }
    co_return Result<void>{};
}

Task<Result<void>> Fills::insert(Fill& fill) {
    for (std::size_t i = 0; i < fill.keys.size(); ++i) {
        CO_OK(co_await insert_gaps(fill, fill.keys[i]));
    }
    co_return Result<void>{};
}

// Inserts what the index does not have yet: another fill of the same range may have been faster.
Task<Result<void>> Fills::insert_gaps(Fill& fill, Key key) {
    index::Tree& tree = services_.tree;
    while (!tree.prepared(inode_, key.start(), key.end())) {
        CO_OK(co_await tree.prepare(inode_, key.start(), key.end()));
    }
    if (fill.cancelled || backing_.doubtful(fill.from, fill.to)) {
        ++stats_.cache_miss_collisions;
        co_return Result<void>{};
    }
    index::Pieces present;
    CHECK(tree.try_lookup(inode_, key.start(), key.end(), present));
    std::vector<Key> gaps;
    std::uint64_t at = key.start();
    for (const Key& there : present) {
        if (there.start() > at) gaps.push_back(key.part(at, there.start()));
        at = there.end();
    }
    if (at < key.end()) gaps.push_back(key.part(at, key.end()));
    if (gaps.empty()) co_return Result<void>{};
    tree.commit(gaps);
    for (const Key& gap : gaps) {
        stats_.filled_sectors += gap.size();
        services_.collector.inserted(gap.size());
    }
    co_return Result<void>{};
}

Task<void> Fills::committer() {
    while (!stopping_) {
        if (deferred_.empty()) {
            co_await wake_.wait();
            continue;
        }
        co_await io::TimedWait(services_.clock, wake_, kFlushDelay);
        if (stopping_) break;
        const bool waiting = std::ranges::any_of(deferred_, [this](const auto& fill) {
            return fill->needs_flush > backing_.done_flush();
        });
        if (waiting) {
            const Result<void> flushed = co_await backing_.flush();
            if (!flushed) {
                flush_failed();
                continue;
            }
        }
        co_await commit_ready();
    }
    give_way();
}

Task<void> Fills::commit_ready() {
    std::vector<std::unique_ptr<Fill>> ready;
    for (auto& fill : deferred_) {
        if (fill->cancelled || fill->needs_flush <= backing_.done_flush()) {
            ready.push_back(std::move(fill));
        }
    }
    std::erase(deferred_, nullptr);
    for (const auto& fill : ready) {
        if (fill->cancelled) {
            ++stats_.cache_miss_collisions;
        } else {
            const Result<void> inserted = co_await insert(*fill);
            if (!inserted) services_.counters.cache_io_errors += inserted.error().code == Errc::io;
        }
        release(*fill);
    }
}

}  // namespace uc::core
