// The way back: finding the cache device, judging it, and putting a new set in the failed one's
// place.

#include <fmt/format.h>

#include <utility>

#include "core/steady_look.h"
#include "core/steady_set.h"
#include "io/timed_wait.h"

namespace uc::core {

Task<void> SteadySet::keep() {
    while (!stopping_) {
        if (set_->failure().empty()) {
            co_await changed_.wait();
            continue;
        }
        begin_outage();
        co_await look_once();
        if (stopping_ || !outage_) continue;
        co_await io::TimedWait(env_.clock, changed_, kLookAgain);
    }
}

void SteadySet::look_later(std::string why) {
    if (why == why_) return;
    why_ = std::move(why);
    log_(fmt::format("{}: {}", set_->cache_name(), why_));
}

Task<void> SteadySet::look_once() {
    Result<Device> found = co_await find_device();
    if (!found) {
        look_later(found.error().what);
        co_return;
    }
    if (stopping_) co_return;
    const Result<void> good = co_await examine(**found);
    if (!good) {
        look_later(fmt::format("{}: {}", (*found)->name(), good.error().what));
        co_return;
    }
    if (stopping_) co_return;
    co_await switch_over(std::move(*found));
}

Task<Result<SteadySet::Device>> SteadySet::find_device() {
    const Result<ondisk::Superblock> here = co_await read_superblock(*device_);
    if (here && here->uuid == set_->superblock().uuid) co_return device_;
    Result<Device> found = co_await find_(set_->superblock(), set_->cache_name());
    // A file that was cut off is in its place, and cannot be found since we have it open.
    const bool cut_off = !here && here.error().code == Errc::gone && here.error().sys == 0;
    if (!found && cut_off) co_return tl::unexpected(here.error());
    co_return found;
}

// Without changing a byte.
Task<Result<void>> SteadySet::examine(io::BlockDevice& device) {
    CO_TRY(const ondisk::Superblock superblock, co_await read_superblock(device));
    if (superblock.uuid != set_->superblock().uuid ||
        superblock.set_uuid != set_->superblock().set_uuid) {
        co_return fail(Errc::invalid, "this is another cache device");
    }
    SetOptions options = set_->options();
    options.read_only = true;
    Report report;
    CO_TRY(const std::unique_ptr<OpenSet> trial,
           co_await OpenSet::open(env_, device, options, report));
    const JournalSeq newest = trial->newest_entry();
    const Result<void> stopped = co_await trial->stop();
    CO_OK(stopped);
    const JournalSeq known = set_->newest_entry();
    if (newest < known && !options.mutations.has(Mutation::older_copy_taken)) {
        co_return fail(Errc::invalid, "it has an older state than the one that was lost: a copy?");
    }
    // The one entry that was under way may have been written.
    if (newest > known + 1) {
        co_return fail(Errc::invalid, "somebody else has used it meanwhile; stop and serve anew");
    }
    co_return Result<void>{};
}

Task<void> SteadySet::switch_over(Device device) {
    switching_ = true;
    // Requests end, with errors that bring them to settled(). Nothing can be written any more.
    const Result<void> ended = co_await set_->stop();
    static_cast<void>(ended);
    Report report;
    Result<std::unique_ptr<OpenSet>> opened =
        co_await OpenSet::open(env_, *device, set_->options(), report);
    if (opened) {
        for (std::size_t i = 0; i < volumes_.size(); ++i) {
            co_await move_volume(*volumes_[i], **opened, report);
        }
        retired_.push_back(std::exchange(set_, std::move(*opened)));
        std::erase_if(retired_, [this](const auto& set) {
            return std::ranges::none_of(volumes_,
                                        [&](const auto& v) { return set->owns(*v->now_); });
        });
        device_ = std::move(device);
        watch();
        outage_ = false;
        // Whose backing device did not let itself be opened is as if that were away.
        for (const auto& volume : volumes_) {
            if (volume->device_ != nullptr && stranded(*volume)) begin_absence(*volume);
        }
        ++round_;
        last_switch_ = env_.clock.now();
        log_(fmt::format("{}: the cache device is back, service goes on", set_->cache_name()));
    } else {
        look_later(report.refusal);
    }
    for (const std::string& note : report.notes) log_(note);
    switching_ = false;
    changed_.notify();
}

Task<void> SteadySet::move_volume(SteadyVolume& volume, OpenSet& to, Report& report) {
    auto& old = static_cast<CachedVolume&>(*volume.now_);
    SetVolume* next = nullptr;
    if (volume.device_ != nullptr) {
        const AttachMode mode = volume.joined_ ? AttachMode::attach : AttachMode::known;
        Report refused;
        const Result<SetVolume*> added = co_await to.add_backing(*volume.device_, mode, refused);
        if (added) next = *added;
        if (!added) report.notes.push_back("not in service any more: " + refused.refusal);
    } else {
        const auto same = [&](SetVolume* v) { return v->uuid() == volume.uuid(); };
        const auto it = std::ranges::find_if(to.volumes(), same);
        if (it != to.volumes().end()) next = *it;
    }
    if (next == nullptr) co_return;
    static_cast<CachedVolume&>(*next).succeed(old);
    next->options() = old.options();
    next->options_changed();
    for (std::uint32_t i = 0; i < volume.pauses_; ++i) next->pause_dirtying();
    // One that had left the failed set is alone and has its data.
    if (old.attached()) {
        const std::uint64_t offset = old.backing() ? old.backing()->data_offset() : 0;
        const RangeSet lost = old.unflushed();
        const Mutations mutations = set_->options().mutations;
        const bool readable = mutations.has(Mutation::lost_range_readable);
        for (const SectorRange& r : lost.ranges()) {
            if (!readable) volume.lost_.add(r.from - offset, r.to - offset);
        }
        volume.tell_loss_ |= !lost.empty() && !mutations.has(Mutation::loss_not_told);
    }
    volume.now_ = next;
    watch_backing(volume);
}

}  // namespace uc::core
