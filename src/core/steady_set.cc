#include "core/steady_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error_text.h"
#include "core/steady_volume.h"
#include "io/timed_wait.h"

namespace uc::core {

Task<Result<std::unique_ptr<SteadySet>>> SteadySet::open(Env env, Device cache, SetOptions options,
                                                         Find find, Log log, Report& report) {
    CO_TRY(std::unique_ptr<OpenSet> set, co_await OpenSet::open(env, *cache, options, report));
    auto steady = std::make_unique<SteadySet>(env, std::move(cache), std::move(set),
                                              std::move(find), std::move(log));
    co_return std::move(steady);
}

SteadySet::SteadySet(Env env, Device cache, std::unique_ptr<OpenSet> set, Find find, Log log)
    : env_(env),
      find_(std::move(find)),
      log_(std::move(log)),
      device_(std::move(cache)),
      set_(std::move(set)),
      tasks_(env.executor) {
    for (SetVolume* volume : set_->volumes()) keep_volume(*volume, nullptr);
    if (set_->options().read_only) return;
    watch();
    tasks_.spawn(keep());
}

void SteadySet::watch() {
    set_->on_failure([this] { changed_.notify(); });
    set_->on_collector_trouble([this](const std::optional<Error>& trouble) {
        const std::string& cache = set_->cache_name();
        if (trouble) {
            log_(
                fmt::format("{}: garbage collection failed: {}; it is tried again, and until it "
                            "succeeds there may be less and less room for new data in the cache",
                            cache, error_text(*trouble)));
        } else {
            log_(fmt::format("{}: garbage collection works again", cache));
        }
    });
}

SteadyVolume& SteadySet::keep_volume(SetVolume& volume, std::unique_ptr<io::SwitchDevice> device) {
    volumes_.push_back(std::make_unique<SteadyVolume>(*this, volume, std::move(device)));
    volume_list_.push_back(volumes_.back().get());
    watch_backing(*volumes_.back());
    return *volumes_.back();
}

SteadyVolume& SteadySet::steady(SetVolume& volume) const {
    const auto it =
        std::ranges::find_if(volumes_, [&](const auto& v) { return v.get() == &volume; });
    CHECK(it != volumes_.end());
    return **it;
}

Task<Result<SetVolume*>> SteadySet::add_backing(io::BlockDevice& device, AttachMode mode,
                                                Report& report) {
    // Its owner keeps it.
    Device shared(&device, [](io::BlockDevice*) {});
    return add_backing(std::move(shared), mode, report);
}

Task<Result<SetVolume*>> SteadySet::add_backing(Device device, AttachMode mode, Report& report) {
    co_await settled();
    auto switchable = std::make_unique<io::SwitchDevice>(std::move(device));
    CO_TRY(SetVolume* const added, co_await set_->add_backing(*switchable, mode, report));
    co_return static_cast<SetVolume*>(&keep_volume(*added, std::move(switchable)));
}

Task<Result<SetVolume*>> SteadySet::create_flash_volume(std::uint64_t sectors, std::string label) {
    co_await settled();
    CO_TRY(SetVolume* const created, co_await set_->create_flash_volume(sectors, std::move(label)));
    co_return static_cast<SetVolume*>(&keep_volume(*created, nullptr));
}

Task<Result<void>> SteadySet::detach(SetVolume& volume) {
    co_await settled();
    SteadyVolume& kept = steady(volume);
    CO_OK(co_await set_->detach(*kept.now_));
    kept.joined_ = false;
    co_return Result<void>{};
}

Task<Result<void>> SteadySet::reattach(SetVolume& volume, Report& report) {
    co_await settled();
    SteadyVolume& kept = steady(volume);
    CO_OK(co_await set_->reattach(*kept.now_, report));
    kept.joined_ = true;
    co_return Result<void>{};
}

Task<Result<DirtyRanges>> SteadySet::dirty_ranges(ondisk::Uuid uuid) {
    co_await settled();
    co_return co_await set_->dirty_ranges(uuid);
}

Task<Result<void>> SteadySet::abandon(SetVolume& volume) {
    co_await settled();
    SteadyVolume& kept = steady(volume);
    CO_OK(co_await set_->abandon(*kept.now_));
    // Not attached again by itself: a human has decided.
    kept.joined_ = false;
    kept.lost_ = RangeSet();
    kept.tell_loss_ = false;
    ++round_;  // requests that wait go on with the backing device
    changed_.notify();
    co_return Result<void>{};
}

Task<Result<void>> SteadySet::forget_device(ondisk::Uuid uuid) {
    co_await settled();
    co_return co_await set_->forget_device(uuid);
}

Task<Result<void>> SteadySet::collect_garbage() {
    co_await settled();
    co_return co_await set_->collect_garbage();
}

Task<Result<void>> SteadySet::set_replacement(ondisk::Replacement policy) {
    co_await settled();
    co_return co_await set_->set_replacement(policy);
}

Task<std::vector<std::string>> SteadySet::check_invariants() {
    co_await settled();
    co_return co_await set_->check_invariants();
}

void SteadySet::end_waits() {
    stopping_ = true;
    changed_.notify();
}

Task<Result<void>> SteadySet::stop() {
    end_waits();
    co_await tasks_.drained();
    co_return co_await set_->stop();
}

std::string SteadySet::outage() const {
    const auto seconds = [](Duration time) {
        return std::chrono::duration_cast<std::chrono::seconds>(time).count();
    };
    const Duration grace = std::chrono::seconds(set_->options().cache_grace_s);
    std::string text;
    const auto tell = [&](const char* what, const std::string& name, Instant begin,
                          const std::string& why) {
        const Duration since = env_.clock.now() - begin;
        const std::string wait =
            since < grace ? fmt::format("wait {} s more", seconds(grace - since)) : "fail";
        if (!text.empty()) text += "; ";
        text += fmt::format(
            "the {} device {} is out of reach for {} s ({}); requests for data that only it has "
            "{}; service resumes when it is back",
            what, name, seconds(since), why.empty() ? "looking for it" : why, wait);
    };
    if (outage_) tell("cache", set_->cache_name(), outage_began_, why_);
    for (const auto& volume : volumes_) {
        if (!volume->away_) continue;
        tell("backing", volume->backing_name(), volume->away_since_, volume->away_why_);
    }
    return text;
}

const std::string& SteadySet::failure() const {
    failure_ = outage();
    return failure_.empty() ? set_->failure() : failure_;
}

Task<void> SteadySet::settled() {
    while (switching_) {
        co_await changed_.wait();
    }
}

void SteadySet::begin_outage() {
    if (outage_) return;
    outage_ = true;
    why_.clear();
    // A device that comes and goes has one long outage, so that requests end in time.
    const Instant now = env_.clock.now();
    const bool again = last_switch_ && now - *last_switch_ < std::chrono::seconds(10);
    if (!again) outage_began_ = now;
    log_(fmt::format("{}: {}: its set is held until the device is back", set_->cache_name(),
                     set_->failure()));
    changed_.notify();
}

Task<bool> SteadySet::wait_for_cache(std::uint64_t round) {
    if (round == round_ && !switching_ && !stopping_ && set_->failure().empty()) {
        co_await set_->probe();
    }
    if (round != round_) co_return !stopping_;
    const bool held = switching_ || !set_->failure().empty();
    if (!held || stopping_ || set_->options().read_only) co_return false;
    begin_outage();
    while (round == round_ && !stopping_) {
        const Instant deadline =
            outage_began_ + std::chrono::seconds(set_->options().cache_grace_s);
        const Instant now = env_.clock.now();
        if (now >= deadline) break;
        co_await io::TimedWait(env_.clock, changed_, deadline - now);
    }
    co_return round != round_ && !stopping_;
}

}  // namespace uc::core
