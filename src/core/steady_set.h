// A cache set that outlives the absences of its cache device.
//
// An open set fails for good when its cache device does. A SteadySet keeps such a set as long as
// nothing better is there (clean data are still read, from the backing devices), looks for the
// device, and when it is back, with what it had, opens it anew, in place of the failed one. Users
// hold SteadyVolumes and do not see the change. Requests that need what only the cache has wait for
// `cache_grace_s` from the beginning of the outage, then fail; old data are never served.
//
//   the set fails, or the device does not answer
//     ->  every second: does the old device answer, or does `find` have it under another name?
//     ->  open it for reading only: is it our set, complete, and neither older nor newer than what
//         we left?
//     ->  hold new requests, end the failed set, open the new one, attach the backing devices
//     ->  go on
//
// Backing devices may go and come back likewise, one by one; the set goes on meanwhile, with hits
// and with writes that only the cache needs to take (steady_backing.cc).
//
// I39: what users wrote and never flushed may be lost, as in a power cut, but the users live on and
// rely on it. So the next flush of the volume fails once, and reading those sectors is an error
// until they are written again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/open_set.h"
#include "core/steady_volume.h"

namespace uc::core {

class SteadySet final : public CacheSet {
public:
    using Device = std::shared_ptr<io::BlockDevice>;
    // Looks for the device with this superblock (uuid), cache or backing, under whatever name it
    // has now; `name` is the last one.
    using Find = std::function<Task<Result<Device>>(const ondisk::Superblock& wanted,
                                                    const std::string& name)>;
    using Log = std::function<void(const std::string& line)>;

    // Like CacheSet::open().
    static Task<Result<std::unique_ptr<SteadySet>>> open(Env env, Device cache, SetOptions options,
                                                         Find find, Log log, Report& report);
    SteadySet(Env env, Device cache, std::unique_ptr<OpenSet> set, Find find, Log log);

    // Requests wait no more, for now or ever: they fail at once. Before stop(), so that front ends
    // need not wait.
    void end_waits();
    // While a device is out of reach: since when, why it is not back, what waits. Else empty.
    std::string outage() const;

    Task<Result<SetVolume*>> add_backing(Device device, AttachMode mode, Report& report);
    Task<Result<SetVolume*>> add_backing(io::BlockDevice& device, AttachMode mode,
                                         Report& report) override;
    Task<Result<SetVolume*>> create_flash_volume(std::uint64_t sectors, std::string label) override;
    Task<Result<void>> detach(SetVolume& volume) override;
    Task<Result<void>> reattach(SetVolume& volume, Report& report) override;
    Task<Result<DirtyRanges>> dirty_ranges(ondisk::Uuid uuid) override;
    Task<Result<void>> abandon(SetVolume& volume) override;
    Task<Result<void>> forget_device(ondisk::Uuid uuid) override;
    Task<Result<void>> stop() override;
    Task<Result<void>> collect_garbage() override;
    const std::vector<SetVolume*>& volumes() const override { return volume_list_; }
    std::vector<AbsentDevice> absent_devices() const override { return set_->absent_devices(); }
    const ondisk::Superblock& superblock() const override { return set_->superblock(); }
    const std::string& cache_name() const override { return set_->cache_name(); }
    SetOptions& options() override { return set_->options(); }
    Task<Result<void>> set_replacement(ondisk::Replacement policy) override;
    SetStats stats() const override { return set_->stats(); }
    std::uint32_t in_use_percent() const override { return set_->in_use_percent(); }
    unsigned tree_depth() const override { return set_->tree_depth(); }
    std::uint64_t btree_cache_bytes() const override { return set_->btree_cache_bytes(); }
    std::uint64_t root_usage_percent() const override { return set_->root_usage_percent(); }
    BucketCounts bucket_counts() const override { return set_->bucket_counts(); }
    BucketSurvey survey() const override { return set_->survey(); }
    const std::string& failure() const override;
    std::string describe() const override { return set_->describe(); }
    Task<std::vector<std::string>> check_invariants() override;

private:
    friend class SteadyVolume;

    // For SteadyVolume. A round ends when another set takes over.
    bool switching() const { return switching_; }
    std::uint64_t round() const { return round_; }
    Task<void> settled();  // no switch is under way
    // After an error in `round`: true if the request should be tried again, perhaps after a wait.
    Task<bool> wait_for_cache(std::uint64_t round);

    // The same for the volume's backing device.
    Task<bool> wait_for_backing(SteadyVolume& volume);

    void watch();
    void watch_backing(SteadyVolume& volume);
    SteadyVolume& keep_volume(SetVolume& volume, std::unique_ptr<io::SwitchDevice> device);
    SteadyVolume& steady(SetVolume& volume) const;
    void begin_outage();
    void look_later(std::string why);
    Task<void> keep();
    Task<void> look_once();
    Task<Result<Device>> find_device();
    Task<Result<void>> examine(io::BlockDevice& device);
    Task<void> switch_over(Device device);
    Task<void> move_volume(SteadyVolume& volume, OpenSet& to, Report& report);

    // steady_backing.cc
    Task<bool> backing_answers(SteadyVolume& volume);
    Task<void> check_backing(SteadyVolume& volume);
    void begin_absence(SteadyVolume& volume);
    void look_later(SteadyVolume& volume, std::string why);
    Task<void> keep_backing(SteadyVolume& volume);
    Task<void> look_for_backing(SteadyVolume& volume);
    Task<Result<void>> examine_backing(SteadyVolume& volume, io::BlockDevice& device);
    Task<Result<void>> take_backing(SteadyVolume& volume, Device device);
    bool stranded(const SteadyVolume& volume) const;

    Env env_;
    Find find_;
    Log log_;
    Device device_;
    std::unique_ptr<OpenSet> set_;
    std::vector<std::unique_ptr<OpenSet>> retired_;  // some volume could not follow
    std::vector<std::unique_ptr<SteadyVolume>> volumes_;
    std::vector<SetVolume*> volume_list_;
    async::Event changed_;
    async::TaskGroup tasks_;
    std::uint64_t round_ = 0;
    bool switching_ = false;
    bool stopping_ = false;
    bool outage_ = false;
    Instant outage_began_{};
    std::optional<Instant> last_switch_;
    std::string why_;  // the device is not back
    mutable std::string failure_;
};

}  // namespace uc::core
