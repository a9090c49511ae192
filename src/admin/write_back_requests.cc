// What can be refused is refused before the first progress line, and progress never claims an end
// that was not reached: the last line, with nothing remaining, is sent only after success.
//
// A client that keeps writing could make data dirty as fast as it is written back. So for as long
// as a flush runs, writes go to the backing device as well (as in mode writethrough; what is
// stored on disk stays). What is dirty can then only become less, and the flush ends.
#include "admin/write_back_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "admin/size_text.h"
#include "io/timed_wait.h"

namespace uc::admin {

namespace {

std::string progress_line(const std::string& volume, std::uint64_t total, std::uint64_t left) {
    nlohmann::json progress{{"total_bytes", total * kSectorBytes},
                            {"remaining_bytes", left * kSectorBytes}};
    progress["volume"] = volume;
    nlohmann::json line;
    line["progress"] = std::move(progress);
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A volume that has left its set, or never was in it, goes straight to its device.
bool runs_without_cache(const core::SetVolume& volume) {
    return volume.state() == ondisk::BackingState::none ||
           volume.state() == ondisk::BackingState::stale;
}

std::string failure(const ServedVolume& served, const Error& error) {
    const core::SetVolume& volume = *served.volume;
    const std::string trouble = volume.writeback_trouble();
    if (trouble.empty()) return explain(served.name, error);
    return fmt::format("{}: write-back fails: {}; {} stay dirty in the cache", served.name, trouble,
                       pretty_size(volume.dirty_sectors() * kSectorBytes));
}

}  // namespace

DirtyingPause::DirtyingPause(const std::vector<ServedVolume>& volumes) {
    for (const ServedVolume& served : volumes) {
        served.volume->pause_dirtying();
        volumes_.push_back(served.volume);
    }
}

DirtyingPause::~DirtyingPause() {
    for (core::SetVolume* volume : volumes_) volume->resume_dirtying();
}

Task<Outcome<>> WriteBackRequests::flush(ServedVolume volume, ControlReply& reply) {
    co_return co_await perform(volume, Kind::flush, reply);
}

Task<Outcome<>> WriteBackRequests::detach(ServedVolume volume, ControlReply& reply) {
    co_return co_await perform(volume, Kind::detach, reply);
}

Task<Outcome<>> WriteBackRequests::flush_all(ControlReply& reply) {
    std::vector<ServedVolume> volumes = served_.volumes();
    std::erase_if(volumes, [](const ServedVolume& v) { return v.volume->flash_only(); });
    for (const ServedVolume& volume : volumes) {
        CO_OK(check(volume, Kind::flush));
    }
    const DirtyingPause pause(volumes);
    for (const ServedVolume& volume : volumes) {
        CO_OK(co_await perform(volume, Kind::flush, reply));
    }
    co_return Outcome<>();
}

Outcome<> WriteBackRequests::check(const ServedVolume& served, Kind kind) const {
    const auto refuse = [&served](const char* reason) {
        return tl::unexpected(fmt::format("{}: {}", served.name, reason));
    };
    const core::SetVolume& volume = *served.volume;
    const bool detach = kind == Kind::detach;
    if (volume.flash_only()) {
        return refuse(
            detach ? "lives on the cache device alone, so it cannot be detached"
                   : "lives on the cache device alone; there is nowhere to write it back to");
    }
    if (detach && runs_without_cache(volume)) {
        return refuse("is not attached: it runs without the cache already");
    }
    if (volume.read_only() && (detach || volume.dirty_sectors() != 0)) {
        return refuse("the set is served read-only, so nothing can be written back");
    }
    return {};
}

Task<void> WriteBackRequests::run(Work& work) {
    if (work.kind == Kind::detach) {
        Result<void> detached = co_await served_.set()->detach(*work.volume);
        work.result = detached;
    } else if (!work.volume->read_only()) {
        Result<void> written = co_await work.volume->write_back_all();
        work.result = written;
    }
    work.done = true;
    work.changed.notify();
}

// Runs the write-back beside and reports its progress twice a second. If the client goes away the
// work is still done.
Task<Outcome<>> WriteBackRequests::perform(ServedVolume served, Kind kind, ControlReply& reply) {
    constexpr Duration kInterval = std::chrono::milliseconds(500);
    CO_OK(check(served, kind));
    Work work;
    work.volume = served.volume;
    work.kind = kind;
    std::uint64_t total = served.volume->dirty_sectors();
    work_.spawn(run(work));
    while (!work.done) {
        const std::uint64_t left = served.volume->dirty_sectors();
        total = std::max(total, left);
        if (left != 0) {
            Result<void> ignored = co_await reply.send(progress_line(served.name, total, left));
            static_cast<void>(ignored);
        }
        if (!work.done) co_await io::TimedWait(clock_, work.changed, kInterval);
    }
    if (!work.result) co_return tl::unexpected(failure(served, work.result.error()));
    if (total != 0) {
        Result<void> ignored = co_await reply.send(progress_line(served.name, total, 0));
        static_cast<void>(ignored);
    }
    co_return Outcome<>();
}

}  // namespace uc::admin
