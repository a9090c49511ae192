// What attributes do beyond reading and setting numbers: accounts of `stats_*`, and the commands
// that sysfs takes by a write to a file.
#pragma once

#include <functional>
#include <string>

#include "admin/attributes.h"
#include "admin/served_set.h"
#include "admin/write_back_requests.h"
#include "async/sync.h"
#include "io/clock.h"

namespace uc::admin {

class SetHost final : public AttributeHost {
public:
    using Log = std::function<void(const std::string&)>;

    // `request_stop` begins the daemon's end. `log` gets lines on how a command that takes its time
    // has ended. All outlive it.
    SetHost(async::Executor& executor, io::Clock& clock, ServedSet& served,
            std::function<void()> request_stop, Log log);

    // Keeps the averages going until stop().
    void run();
    // Nothing new is begun. Call after the set has stopped, which ends what is under way.
    Task<void> stop();

    const StatsAccount& account(const core::SetVolume* volume) override;
    void clear_stats(const core::SetVolume* volume) override;
    Task<Result<void>> attach(core::SetVolume* volume, ondisk::Uuid set) override;
    Task<Result<void>> create_volume(std::uint64_t bytes) override;
    void label_changed() override { served_.label_changed(); }
    Result<void> begin_detach(core::SetVolume* volume) override;
    Result<void> begin_garbage_collection() override;
    Result<void> begin_stop(bool detach_all) override;

private:
    void look();
    Task<void> keep_averages();
    Task<void> detach(ServedVolume volume);
    Task<void> collect_garbage();
    Task<void> detach_all();

    io::Clock& clock_;
    ServedSet& served_;
    std::function<void()> request_stop_;
    Log log_;
    WriteBackRequests write_back_;
    SetAccounts accounts_;
    async::TaskGroup work_;
    async::Event stop_asked_;
    bool stopping_ = false;
};

}  // namespace uc::admin
