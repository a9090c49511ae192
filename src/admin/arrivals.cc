#include "admin/arrivals.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "io/timed_wait.h"

namespace uc::admin {

Arrivals::Arrivals(io::Clock& clock, ServedSet& served, const ServeOptions& options, Log log)
    : clock_(clock),
      served_(served),
      options_(options),
      directory_(options.run_directory, *options.assembled),
      log_(std::move(log)) {}

Task<void> Arrivals::run() {
    constexpr Duration kInterval = std::chrono::seconds(1);
    while (!stopping_) {
        co_await look();
        looked_ = true;
        changed_.notify();
        if (stopping_) co_return;
        co_await io::TimedWait(clock_, changed_, kInterval);
    }
}

Task<void> Arrivals::look() {
    if (options_.without_cache) tell_of_cache();
    const std::vector<ondisk::Uuid> noted = directory_.noted_backings();
    for (const ondisk::Uuid& uuid : noted) {
        if (stopping_ || is_served(uuid) || refused_.contains(uuid)) continue;
        const std::optional<std::string> path = directory_.backing(uuid);
        if (!path) continue;
        const Outcome<std::string> joined = co_await served_.join(*path);
        if (joined) {
            log_(*path + ": has appeared, served as " + *joined);
        } else if (!stopping_) {
            refused_.insert(uuid);
            log_("has appeared, but is not served: " + joined.error());
        }
    }
}

bool Arrivals::is_served(const ondisk::Uuid& uuid) const {
    return served_.find(uuid.to_string()) != nullptr;
}

void Arrivals::tell_of_cache() {
    const bool there = !cache_told_ && directory_.cache().has_value();
    if (!there) return;
    cache_told_ = true;
    log_("the cache device has appeared; it is used from the next start of this service on");
}

Task<void> Arrivals::complete() {
    const Instant deadline = clock_.now() + std::chrono::seconds(options_.wait_s);
    while (!stopping_ && clock_.now() < deadline) {
        if (looked_ && served_.set()->absent_devices().empty()) co_return;
        co_await io::TimedWait(clock_, changed_, deadline - clock_.now());
    }
    if (stopping_) co_return;
    for (const core::AbsentDevice& device : served_.set()->absent_devices()) {
        log_("backing device " + device.uuid.to_string() +
             " has not appeared; it is served as soon as it does");
    }
}

void Arrivals::stop() {
    stopping_ = true;
    changed_.notify();
}

}  // namespace uc::admin
