#include "core/steady_volume.h"

#include <utility>

#include "core/steady_set.h"

namespace uc::core {

namespace {

// Errors that may be the cache's doing. The others are the request's own.
bool may_pass(const Error& error) {
    switch (error.code) {
        case Errc::io:
        case Errc::gone:
        case Errc::data_lost:
        case Errc::stopped:
        case Errc::corrupt:
            return true;
        default:
            return false;
    }
}

}  // namespace

// After a request that went well. `tellings`: as it began. A flush that was under way when another
// one told of a loss does not say that all is well.
Result<void> SteadyVolume::judge(Kind kind, std::uint64_t from, std::uint64_t to,
                                 std::uint64_t tellings) {
    if (kind == Kind::write && !lost_.empty()) lost_.remove(from, to);
    if (kind == Kind::flush && (tell_loss_ || tellings_ != tellings)) {
        tellings_ += std::exchange(tell_loss_, false);
        return fail(Errc::data_lost, "writes that were never flushed went with the cache device");
    }
    return {};
}

template <class Start>
Task<Result<void>> SteadyVolume::persist(Kind kind, std::uint64_t from, std::uint64_t to,
                                         Start start) {
    const std::uint64_t tellings = tellings_;
    for (;;) {
        if (set_.switching()) {
            co_await set_.settled();
        }
        if (kind == Kind::read && !lost_.empty() && lost_.overlaps(from, to)) {
            co_return fail(Errc::data_lost, "the last write here went with the cache device");
        }
        const std::uint64_t round = set_.round();
        const Result<void> done = co_await start(*now_);
        if (done) co_return judge(kind, from, to, tellings);
        if (!may_pass(done.error())) co_return done;
        // The volume holds it to be told now. Until it is, no other flush may say that all is well,
        // nor this one when it is tried again.
        const bool tells = kind == Kind::flush && done.error().code == Errc::data_lost;
        tell_loss_ |= tells;
        const bool other_set = co_await set_.wait_for_cache(round);
        if (other_set) continue;
        const bool returned = co_await set_.wait_for_backing(*this);
        if (returned) continue;
        if (tells) tellings_ += std::exchange(tell_loss_, false);
        co_return done;
    }
}

Task<Result<void>> SteadyVolume::read(std::uint64_t sector, std::span<std::byte> out) {
    const auto start = [sector, out](SetVolume& volume) { return volume.read(sector, out); };
    return persist(Kind::read, sector, sector + out.size() / kSectorBytes, start);
}

Task<Result<void>> SteadyVolume::write(std::uint64_t sector, std::span<const std::byte> in,
                                       WriteFlags flags) {
    const auto start = [sector, in, flags](SetVolume& volume) {
        return volume.write(sector, in, flags);
    };
    return persist(Kind::write, sector, sector + in.size() / kSectorBytes, start);
}

Task<Result<void>> SteadyVolume::flush() {
    const auto start = [](SetVolume& volume) { return volume.flush(); };
    return persist(Kind::flush, 0, 0, start);
}

Task<Result<void>> SteadyVolume::discard(std::uint64_t sector, std::uint64_t sectors) {
    const auto start = [sector, sectors](SetVolume& volume) {
        return volume.discard(sector, sectors);
    };
    return persist(Kind::write, sector, sector + sectors, start);
}

Task<Result<void>> SteadyVolume::write_zeroes(std::uint64_t sector, std::uint64_t sectors,
                                              WriteFlags flags) {
    const auto start = [sector, sectors, flags](SetVolume& volume) {
        return volume.write_zeroes(sector, sectors, flags);
    };
    return persist(Kind::write, sector, sector + sectors, start);
}

void SteadyVolume::pause_dirtying() {
    ++pauses_;
    now_->pause_dirtying();
}

void SteadyVolume::resume_dirtying() {
    --pauses_;
    now_->resume_dirtying();
}

}  // namespace uc::core
