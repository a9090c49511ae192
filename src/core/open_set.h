// The parts of a set and their life. Opening is in recovery.cc, attaching and detaching in
// membership.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cache_set.h"
#include "core/cached_volume.h"
#include "core/holdings.h"
#include "core/services.h"
#include "gc/collector.h"
#include "gc/reclaimer.h"
#include "journal/journal.h"

namespace uc::core {

class OpenSet final : public CacheSet {
public:
    OpenSet(Env env, io::BlockDevice& cache, SetOptions options,
            const ondisk::Superblock& superblock);

    static Task<Result<std::unique_ptr<OpenSet>>> open(Env env, io::BlockDevice& cache,
                                                       SetOptions options, Report& report);

    // Asks the cache device for the set's superblock. If it does not answer, the set has failed.
    Task<void> probe();
    void on_failure(std::function<void()> tell) { journal_.on_failure(std::move(tell)); }
    void on_collector_trouble(gc::Collector::Tell tell) { collector_.on_trouble(std::move(tell)); }
    bool owns(const SetVolume& volume) const {
        return std::ranges::find(volume_list_, &volume) != volume_list_.end();
    }
    // The newest journal entry that is durable on the device.
    JournalSeq newest_entry() const { return journal_.newest_entry(); }

    // Opening; each fills `report` on refusal.
    Task<Result<void>> recover(Report& report);
    Task<Result<void>> initialise(Report& report);
    Task<Result<void>> start(Report& report);

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
    std::vector<AbsentDevice> absent_devices() const override;
    const ondisk::Superblock& superblock() const override { return superblock_; }
    const std::string& cache_name() const override { return cache_.name(); }
    SetOptions& options() override { return options_; }
    Task<Result<void>> set_replacement(ondisk::Replacement policy) override;
    SetStats stats() const override;
    std::uint32_t in_use_percent() const override { return table_.in_use_percent(); }
    unsigned tree_depth() const override { return tree_.root().level; }
    std::uint64_t btree_cache_bytes() const override { return tree_.memory_bytes(); }
    std::uint64_t root_usage_percent() const override;
    BucketCounts bucket_counts() const override;
    BucketSurvey survey() const override { return survey_buckets(table_); }
    const std::string& failure() const override;
    std::string describe() const override;
    Task<std::vector<std::string>> check_invariants() override;

private:
    struct Placement {  // where a backing device goes
        bool attach = false;
        bool new_entry = false;
        std::optional<Inode> old_entry;  // to be invalidated
        Inode inode = kNoInode;
    };

    void connect_services();

    // recovery.cc
    Task<Result<void>> load_roots(const journal::Recovered& recovered, Report& report);
    Task<Result<void>> load_uuids(const ondisk::Jset& newest, Report& report);
    Task<Result<void>> load_index(const journal::Recovered& recovered, Report& report);
    Task<Result<void>> zero_journal();

    // damage.cc
    Task<Result<void>> rebuild_generations(std::string& problem);
    std::string uuid_damage(const Holdings& holdings) const;

    // placement.cc
    Result<Placement> place(const ondisk::Superblock& superblock, const std::string& name,
                            AttachMode mode, Report& report) const;
    Result<ondisk::Superblock> check_backing(std::span<const std::byte> bytes,
                                             const io::BlockDevice& device, Report& report) const;
    Task<Result<void>> check_size(Inode inode, const io::BlockDevice& device, Report& report);
    Task<Result<void>> drop_keys(const std::vector<ondisk::Key>& keys);

    // membership.cc
    std::optional<Inode> find_uuid(const ondisk::Uuid& uuid) const;
    Task<Result<void>> record_entry(const Placement& placement,
                                    const ondisk::Superblock& superblock);
    Task<Result<void>> enter(const Placement& placement, ondisk::Superblock& superblock,
                             io::BlockDevice& device);
    Task<Result<Inode>> enter_again(const Placement& placement, Backing& backing);
    Result<CachedVolume*> own(SetVolume& volume) const;
    Task<Result<void>> write_uuids();
    Task<Result<void>> forget(CachedVolume& volume);
    Task<Result<void>> change_label(Inode inode, std::string label);
    CachedVolume& add_volume(std::unique_ptr<CachedVolume> volume);
    Result<void> check_label(const std::string& label, const ondisk::Uuid& self) const;
    void add_flash_volumes();

    // abandon.cc
    RangeSet dirty_ranges_in_memory(Inode inode) const;
    Task<Result<void>> drop_inode(Inode inode);
    Task<void> drop_orphans();

    Task<Result<void>> write_first();
    Task<Result<void>> write_last();
    Task<Result<void>> save_superblock();
    Task<void> end_tasks();
    void check_accounts(std::vector<std::string>& broken, const std::vector<alloc::Bucket>& walked);
    Task<Result<void>> walk_accounts(std::vector<alloc::Bucket>& walked);

    Env env_;
    io::BlockDevice& cache_;
    SetOptions options_;
    ondisk::Superblock superblock_;
    ondisk::Geometry geometry_;
    std::uint64_t magic_;
    SetStats counters_;
    alloc::BucketTable table_;
    alloc::Allocator allocator_;
    journal::Journal journal_;
    index::Tree tree_;
    gc::Collector collector_;
    policy::Congestion congestion_;
    std::optional<gc::Reclaimer> reclaimer_;
    Services services_;
    std::vector<ondisk::UuidEntry> uuids_;
    std::optional<BucketIndex> uuid_bucket_;
    async::Mutex uuid_lock_;
    async::Mutex superblock_lock_;
    std::vector<std::unique_ptr<CachedVolume>> volumes_;
    std::vector<SetVolume*> volume_list_;
    async::TaskGroup volume_tasks_;
    async::TaskGroup set_tasks_;
    bool stopped_ = false;
    mutable std::string failure_;
};

}  // namespace uc::core
