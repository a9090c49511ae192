// As in sysfs, a command that may take hours is begun by the write, which then returns; how it
// ended is in the log.
#include "admin/set_host.h"

#include <utility>

#include "io/timed_wait.h"

namespace uc::admin {

namespace {

// Nobody follows the progress.
class NoReply final : public ControlReply {
public:
    Task<Result<void>> send(std::string) override { co_return Result<void>(); }
};

}  // namespace

SetHost::SetHost(async::Executor& executor, io::Clock& clock, ServedSet& served,
                 std::function<void()> request_stop, Log log)
    : clock_(clock),
      served_(served),
      request_stop_(std::move(request_stop)),
      log_(std::move(log)),
      write_back_(executor, clock, served),
      work_(executor) {}

void SetHost::run() {
    work_.spawn(keep_averages());
}

Task<void> SetHost::stop() {
    stopping_ = true;
    stop_asked_.notify();
    co_await work_.drained();
}

void SetHost::look() {
    accounts_.look(served_.set()->volumes(), clock_.now());
}

Task<void> SetHost::keep_averages() {
    while (!stopping_) {
        look();
        co_await io::TimedWait(clock_, stop_asked_, StatsAccount::kInterval);
    }
}

const StatsAccount& SetHost::account(const core::SetVolume* volume) {
    look();
    return accounts_.of(volume);
}

void SetHost::clear_stats(const core::SetVolume* volume) {
    look();
    accounts_.clear(volume);
}

Task<Result<void>> SetHost::attach(core::SetVolume* volume, ondisk::Uuid set) {
    if (set != served_.set()->superblock().set_uuid) {
        co_return fail(Errc::not_found, "that is not the uuid of the set served here");
    }
    if (volume->attached()) co_return fail(Errc::invalid, "the volume is attached already");
    core::Report report;
    const Result<void> done = co_await served_.set()->reattach(*volume, report);
    for (const std::string& note : report.notes) log_(note);
    if (!done) log_(explain(volume->name() + ": attach", done.error(), report));
    co_return done;
}

Task<Result<void>> SetHost::create_volume(std::uint64_t bytes) {
    const Outcome<std::string> created = co_await served_.create_volume(bytes, std::string());
    if (created) co_return Result<void>();
    log_(created.error());
    co_return fail(Errc::no_space, "the volume could not be created");
}

Result<void> SetHost::begin_detach(core::SetVolume* volume) {
    if (!volume->attached()) return fail(Errc::invalid, "the volume is not attached");
    if (volume->read_only()) return fail(Errc::read_only, "the set is served read-only");
    if (stopping_ || served_.stopping()) return fail(Errc::stopped, "the set is stopping");
    for (const ServedVolume& served : served_.volumes()) {
        if (served.volume == volume) work_.spawn(detach(served));
    }
    return {};
}

Task<void> SetHost::detach(ServedVolume volume) {
    NoReply reply;
    const Outcome<> done = co_await write_back_.detach(volume, reply);
    if (done) {
        log_(volume.name + ": detached; its backing device holds all data now");
    } else {
        log_(volume.name + ": detach: " + done.error());
    }
}

Result<void> SetHost::begin_garbage_collection() {
    if (served_.read_only()) return fail(Errc::read_only, "the set is served read-only");
    if (stopping_ || served_.stopping()) return fail(Errc::stopped, "the set is stopping");
    work_.spawn(collect_garbage());
    return {};
}

Task<void> SetHost::collect_garbage() {
    const Result<void> done = co_await served_.set()->collect_garbage();
    if (!done) log_(explain("garbage collection", done.error()));
}

Result<void> SetHost::begin_stop(bool detach_all_first) {
    if (!detach_all_first) {
        request_stop_();
        return {};
    }
    if (served_.read_only()) return fail(Errc::read_only, "the set is served read-only");
    if (stopping_ || served_.stopping()) return fail(Errc::stopped, "the set is stopping");
    work_.spawn(detach_all());
    return {};
}

Task<void> SetHost::detach_all() {
    NoReply reply;
    const std::vector<ServedVolume> volumes = served_.volumes();
    for (const ServedVolume& volume : volumes) {
        if (volume.volume->flash_only() || !volume.volume->attached()) continue;
        const Outcome<> done = co_await write_back_.detach(volume, reply);
        if (!done) {
            log_(volume.name + ": detach: " + done.error() + "; the set goes on");
            co_return;
        }
    }
    request_stop_();
}

}  // namespace uc::admin
