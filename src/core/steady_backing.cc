// A backing device that goes away and comes back.
//
// The set goes on: hits, dirty writes that fit into the cache. What needs the device waits for the
// grace time, counted from the beginning of the absence, then fails. Every second the device is
// looked for; identity is the uuid, and the superblock must say what we left there: else somebody
// else has used the device meanwhile, and what the cache knows of it may be wrong.
//
// What the device had in its own cache may be gone. Backing::came_back() lets the next flush fail,
// so write-back writes again what it had not flushed, fills that waited are dropped, and a user who
// relied on that flush is told.

#include <fmt/format.h>

#include <algorithm>

#include "core/steady_look.h"
#include "core/steady_set.h"
#include "io/timed_wait.h"

namespace uc::core {

using ondisk::BackingState;
using ondisk::Superblock;

bool SteadySet::stranded(const SteadyVolume& volume) const {
    return !set_->owns(*volume.now_);
}

void SteadySet::watch_backing(SteadyVolume& volume) {
    if (volume.device_ == nullptr) return;
    CachedVolume& cached = static_cast<CachedVolume&>(*volume.now_);
    cached.on_writeback_change([this, &cached] {
        const std::string trouble = cached.writeback_trouble();
        log_(trouble.empty()
                 ? fmt::format("{}: write-back works again", cached.name())
                 : fmt::format("{}: write-back fails: {}; its data stays dirty, and it is tried "
                               "again every few seconds",
                               cached.name(), trouble));
    });
    cached.on_backing_trouble([this, &volume] {
        if (stopping_ || volume.away_ || volume.suspected_) return;
        volume.suspected_ = true;
        tasks_.spawn(check_backing(volume));
    });
}

Task<bool> SteadySet::backing_answers(SteadyVolume& volume) {
    const Result<Superblock> superblock = co_await read_superblock(*volume.device_);
    co_return superblock && superblock->uuid == volume.uuid();
}

Task<void> SteadySet::check_backing(SteadyVolume& volume) {
    const bool answers = co_await backing_answers(volume);
    volume.suspected_ = false;
    if (!answers) begin_absence(volume);
}

void SteadySet::begin_absence(SteadyVolume& volume) {
    if (volume.away_ || stopping_) return;
    volume.away_ = true;
    volume.away_since_ = env_.clock.now();
    volume.away_why_.clear();
    log_(fmt::format("{}: the device does not answer; what needs it waits", volume.backing_name()));
    tasks_.spawn(keep_backing(volume));
}

void SteadySet::look_later(SteadyVolume& volume, std::string why) {
    if (why == volume.away_why_) return;
    volume.away_why_ = std::move(why);
    log_(fmt::format("{}: {}", volume.backing_name(), volume.away_why_));
}

Task<bool> SteadySet::wait_for_backing(SteadyVolume& volume) {
    if (volume.device_ == nullptr || stopping_ || set_->options().read_only) co_return false;
    if (!volume.away_) {
        const bool answers = co_await backing_answers(volume);
        if (answers) co_return false;  // the error is the request's own
        begin_absence(volume);
    }
    while (volume.away_ && !stopping_) {
        const Instant deadline =
            volume.away_since_ + std::chrono::seconds(set_->options().cache_grace_s);
        const Instant now = env_.clock.now();
        if (now >= deadline) break;
        co_await io::TimedWait(env_.clock, changed_, deadline - now);
    }
    co_return !volume.away_ && !stopping_;
}

Task<void> SteadySet::keep_backing(SteadyVolume& volume) {
    while (!stopping_ && volume.away_) {
        co_await settled();
        co_await look_for_backing(volume);
        if (stopping_ || !volume.away_) break;
        co_await io::TimedWait(env_.clock, changed_, kLookAgain);
    }
}

Task<void> SteadySet::look_for_backing(SteadyVolume& volume) {
    Device device = volume.device_->current();
    const bool answers = co_await backing_answers(volume);
    if (!answers) {
        const Superblock wanted = static_cast<CachedVolume&>(*volume.now_).backing()->superblock();
        const std::string name = volume.backing_name();
        Result<Device> found = co_await find_(wanted, name);
        if (!found) {
            look_later(volume, found.error().what);
            co_return;
        }
        device = std::move(*found);
    }
    const std::string name = device->name();
    const Result<void> taken = co_await take_backing(volume, std::move(device));
    if (!taken) look_later(volume, fmt::format("{}: {}", name, taken.error().what));
}

Task<Result<void>> SteadySet::examine_backing(SteadyVolume& volume, io::BlockDevice& device) {
    CO_TRY(const Superblock there, co_await read_superblock(device));
    const Backing& ours = *static_cast<CachedVolume&>(*volume.now_).backing();
    if (there.uuid != volume.uuid()) co_return fail(Errc::invalid, "this is another device");
    if (device.size_sectors() != volume.device_->size_sectors()) {
        co_return fail(Errc::invalid, "it has another size now; stop and serve anew");
    }
    if (!ours.may_say(there)) {
        co_return fail(Errc::invalid, "somebody else has used it meanwhile; stop and serve anew");
    }
    co_return Result<void>{};
}

Task<Result<void>> SteadySet::take_backing(SteadyVolume& volume, Device device) {
    CO_OK(co_await examine_backing(volume, *device));
    CO_OK(co_await device->flush());
    if (stopping_) co_return fail(Errc::stopped, "the set is stopping");
    Backing& backing = *static_cast<CachedVolume&>(*volume.now_).backing();
    backing.came_back();
    volume.device_->replace(std::move(device));
    if (stranded(volume)) {
        Report report;
        co_await move_volume(volume, *set_, report);
        for (const std::string& note : report.notes) log_(note);
        if (stranded(volume))
            co_return fail(Errc::invalid, "it cannot be taken into the set again");
    } else {
        CO_OK(co_await backing.reassert());
    }
    volume.away_ = false;
    log_(fmt::format("{}: the device is back, service goes on", volume.backing_name()));
    volume.options_changed();  // write-back tries again
    changed_.notify();
    co_return Result<void>{};
}

}  // namespace uc::core
