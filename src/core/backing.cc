#include "core/backing.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "io/buffer.h"

namespace uc::core {

namespace {
constexpr std::uint64_t kChunk = 2048;
}

Task<Result<void>> Backing::save() {
    io::Buffer buffer(ondisk::kSuperblockBytes);
    const auto bytes = ondisk::encode_superblock(superblock_);
    std::ranges::copy(bytes, buffer.data());
    const bool fua = !mutations_.has(Mutation::superblock_without_fua);
    const Words words{superblock_.set_uuid, superblock_.state()};
    const Result<void> written =
        co_await device_.write(ondisk::kSuperblockSector, buffer.span(), fua);
    if (written) words_.clear();
    if (std::ranges::find(words_, words) == words_.end()) words_.push_back(words);
    co_return written;
}

bool Backing::may_say(const ondisk::Superblock& there) const {
    const Words words{there.set_uuid, there.state()};
    return std::ranges::find(words_, words) != words_.end();
}

Task<Result<void>> Backing::become_dirty() {
    co_await superblock_lock_.lock();
    const async::Mutex::Guard guard(superblock_lock_);
    // Not over "stale" either: a failed set has been left while we waited, and its data must never
    // be used again.
    if (state_ != ondisk::BackingState::clean) co_return Result<void>{};
    superblock_.set_state(ondisk::BackingState::dirty);
    const Result<void> saved = co_await save();
    if (saved) state_ = ondisk::BackingState::dirty;  // only now may the write go on
    superblock_.set_state(state_);
    co_return saved;
}

Task<Result<void>> Backing::become_clean() {
    co_await superblock_lock_.lock();
    const async::Mutex::Guard guard(superblock_lock_);
    if (state_ != ondisk::BackingState::dirty) co_return Result<void>{};
    // The memory leads: a new dirty write must see that it has to wait for us and write the state
    // again.
    state_ = ondisk::BackingState::clean;
    superblock_.set_state(ondisk::BackingState::clean);
    co_return co_await save();
}

Task<Result<void>> Backing::become_stale() {
    co_await superblock_lock_.lock();
    const async::Mutex::Guard guard(superblock_lock_);
    superblock_.set_state(ondisk::BackingState::stale);
    const Result<void> saved = co_await save();
    if (saved) state_ = ondisk::BackingState::stale;
    // Else it stays in the set, and what it has there counts.
    superblock_.set_state(state_);
    co_return saved;
}

Task<Result<void>> Backing::leave_set() {
    const ondisk::Uuid nobody;
    co_return co_await change_set(nobody, ondisk::BackingState::none);
}

Task<Result<void>> Backing::enter_set(ondisk::Uuid set) {
    co_return co_await change_set(set, ondisk::BackingState::clean);
}

Task<Result<void>> Backing::reassert() {
    co_await superblock_lock_.lock();
    const async::Mutex::Guard guard(superblock_lock_);
    co_return co_await save();
}

Task<Result<void>> Backing::change_set(ondisk::Uuid set, ondisk::BackingState state) {
    co_await superblock_lock_.lock();
    const async::Mutex::Guard guard(superblock_lock_);
    const ondisk::Uuid before = superblock_.set_uuid;
    superblock_.set_uuid = set;
    superblock_.set_state(state);
    const Result<void> saved = co_await save();
    if (saved) {
        state_ = state;
    } else {
        superblock_.set_uuid = before;
        superblock_.set_state(state_);
    }
    co_return saved;
}

void Backing::wrote(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t chunk = from / kChunk; chunk <= (to - 1) / kChunk; ++chunk) {
        since_flush_.insert(chunk);
    }
}

bool Backing::touch(const Chunks& chunks, std::uint64_t from, std::uint64_t to) {
    const auto it = chunks.lower_bound(from / kChunk);
    return it != chunks.end() && *it <= (to - 1) / kChunk;
}

bool Backing::durable(std::uint64_t from, std::uint64_t to) const {
    return !touch(since_flush_, from, to) && !touch(flushing_, from, to);
}

void Backing::inherit(const Backing& old, std::uint64_t told) {
    since_flush_.insert(old.since_flush_.begin(), old.since_flush_.end());
    since_flush_.insert(old.flushing_.begin(), old.flushing_.end());
    doubtful_.insert(old.doubtful_.begin(), old.doubtful_.end());
    user_since_flush_ |= old.user_since_flush_;
    losses_ += old.losses_ - told;
    away_ |= old.away_;
}

// One at a time, and everybody who waits meanwhile shares the next one: a failure is then never
// hidden by another flush that was under way beside it and succeeded.
Task<Result<void>> Backing::flush() {
    const std::uint64_t wanted = next_flush();
    co_await flush_lock_.lock();
    const async::Mutex::Guard guard(flush_lock_);
    if (done_ >= wanted || !needs_flush()) {
        done_ = std::max(done_, wanted);
        started_ = std::max(started_, wanted);
        co_return Result<void>{};
    }
    const std::uint64_t number = ++started_;
    for (const std::uint64_t chunk : std::exchange(since_flush_, {})) flushing_.insert(chunk);
    const bool user = std::exchange(user_since_flush_, false);
    Result<void> flushed = co_await device_.flush();
    if (std::exchange(away_, false)) flushed = fail(Errc::io, "the device was away meanwhile");
    if (flushed) {
        done_ = std::max(done_, number);
        flushing_.clear();
    } else {
        losses_ += user;
        // Whoever asked may try again and never tell: the next failure counts for the users, too.
        user_since_flush_ |= user;
        failures_ += !mutations_.has(Mutation::failed_flush_of_another);
        for (const std::uint64_t chunk : flushing_) doubtful_.insert(chunk);
    }
    co_return flushed;
}

}  // namespace uc::core
