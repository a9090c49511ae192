// A volume of a set: a cached backing device or a flash-only volume.
//
//   read_path.cc    look up, read pieces in parallel, fill what was missed
//   write_path.cc   decide, then one of: to the cache (dirty) / to backing with the cache
//   invalidated or filled flush.cc        flush, dirty state, clean state
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/range_lock.h"
#include "core/backing.h"
#include "core/cache_set.h"
#include "core/fill.h"
#include "core/range_set.h"
#include "core/services.h"
#include "policy/bypass.h"
#include "policy/sequential.h"
#include "policy/writeback_rate.h"
#include "writeback/writeback.h"

namespace uc::core {

constexpr Inode kNoInode = ~Inode{0};  // of a volume that is not attached

struct VolumeIdentity {
    Inode inode = kNoInode;
    ondisk::Uuid uuid;
    std::string name;
    std::string label;
    std::uint64_t flash_sectors = 0;  // size of a flash-only volume
};

class CachedVolume final : public SetVolume {
public:
    // `device` is null for a flash-only volume. `attached` false: everything goes to the device.
    CachedVolume(Services& services, VolumeIdentity identity, io::BlockDevice* device,
                 const ondisk::Superblock* superblock, bool attached);

    // Background tasks; not for read-only sets.
    void run(async::TaskGroup& group);
    void stop();
    // Waits for the requests in flight.
    Task<void> quiesce();
    Task<Result<void>> read(std::uint64_t sector, std::span<std::byte> out) override;
    Task<Result<void>> write(std::uint64_t sector, std::span<const std::byte> in,
                             WriteFlags flags) override;
    Task<Result<void>> flush() override;
    Task<Result<void>> discard(std::uint64_t sector, std::uint64_t sectors) override;
    Task<Result<void>> write_zeroes(std::uint64_t sector, std::uint64_t sectors,
                                    WriteFlags flags) override;
    std::uint64_t size_sectors() const override { return size_; }
    std::uint32_t block_sectors() const override;
    bool read_only() const override { return services_.options.read_only; }
    const std::string& name() const override { return identity_.name; }

    Inode inode() const override { return identity_.inode; }
    const ondisk::Uuid& uuid() const override { return identity_.uuid; }
    bool flash_only() const override { return !backing_; }
    ondisk::BackingState state() const override;
    ondisk::CacheMode cache_mode() const override;
    const std::string& backing_name() const override;
    std::string label() const override { return identity_.label; }
    std::uint64_t dirty_sectors() const override;
    const VolumeStats& stats() const override;
    VolumeOptions& options() override { return options_; }
    void options_changed() override;
    Task<Result<void>> set_cache_mode(ondisk::CacheMode mode) override;
    Task<Result<void>> set_label(std::string label) override;
    Task<Result<void>> write_back_all() override;
    std::string writeback_trouble() const override;
    void pause_dirtying() override { ++dirtying_pauses_; }
    void resume_dirtying() override { --dirtying_pauses_; }

    // Counts whoever is at work on the volume: its set does not end before.
    class InFlight {
    public:
        explicit InFlight(CachedVolume& volume) : volume_(volume) { ++volume_.in_flight_; }
        ~InFlight() {
            if (--volume_.in_flight_ == 0) volume_.idle_.notify();
        }
        InFlight(const InFlight&) = delete;
        InFlight& operator=(const InFlight&) = delete;

    private:
        CachedVolume& volume_;
    };

    bool attached() const override { return attached_; }
    std::uint64_t requests_in_flight() const { return in_flight_; }
    Backing* backing() { return backing_ ? &*backing_ : nullptr; }
    const VolumeIdentity& identity() const { return identity_; }
    void foreground_io() { rate_.foreground_io(); }
    // Somebody waits for a bucket.
    void free_space() {
        if (writeback_) writeback_->kick();
        if (fills_) fills_->give_way();
    }
    // Detaching, first half: nothing new becomes dirty, what is dirty is written back.
    Task<Result<void>> begin_detach();
    // Second half: with no change in flight, runs `forget` (superblock, uuid table) and from then
    // on passes everything to the backing device.
    Task<Result<void>> cut_off(Task<Result<void>> forget);
    // Called when write-back fails: is the backing device there?
    void on_backing_trouble(std::function<void()> tell) { trouble_ = std::move(tell); }
    // Called when writeback_trouble() has changed.
    void on_writeback_change(std::function<void()> tell) { writeback_changed_ = std::move(tell); }
    // Leaves a set that has failed, dirty data or not.
    Task<Result<void>> abandon_set();
    // Takes the place of a volume of a failed set, on the same backing device.
    void succeed(const CachedVolume& old) {
        if (backing_) backing_->inherit(*old.backing_, old.told_losses_);
    }
    // Where users' writes were answered whose keys no durable journal entry has yet. In the sectors
    // of the backing device.
    RangeSet unflushed() const;
    // Attaches a volume that runs without the set: with no write in flight, runs `enter` (uuid
    // table, superblock), which says what the volume's keys are filed under.
    Task<Result<void>> join(Task<Result<Inode>> enter);
    void give_up_detach() { detaching_ = false; }

private:
    struct WriteOp {
        std::uint64_t from = 0, to = 0;   // key space
        const std::byte* data = nullptr;  // null: zeroes or discard
        bool discard = false;
        WriteFlags flags;
        std::uint64_t sectors() const { return to - from; }
    };
    struct ReadPart {
        std::uint64_t from = 0, to = 0;
        std::optional<ondisk::Key> extent;  // empty: from backing (or zeroes)
        Result<void> result;
        bool raced = false;  // the bucket was reused meanwhile
    };
    // Counts writers between their look at the dirty state and their commit.
    class DirtyWriter {
    public:
        explicit DirtyWriter(CachedVolume& volume) : volume_(volume) { ++volume_.dirty_writers_; }
        ~DirtyWriter() { --volume_.dirty_writers_; }
        DirtyWriter(const DirtyWriter&) = delete;
        DirtyWriter& operator=(const DirtyWriter&) = delete;

    private:
        CachedVolume& volume_;
    };
    // Counts a request that waits for a bucket.
    class SpaceWaiter {
    public:
        explicit SpaceWaiter(Services& services) : services_(services) {
            ++services_.space_waiters;
        }
        ~SpaceWaiter() { --services_.space_waiters; }
        SpaceWaiter(const SpaceWaiter&) = delete;
        SpaceWaiter& operator=(const SpaceWaiter&) = delete;

    private:
        Services& services_;
    };
    // Keys of data written to the cache; their buckets stay pinned until the keys are committed or
    // dropped.
    class PinnedKeys {
    public:
        explicit PinnedKeys(alloc::Allocator& allocator) : allocator_(allocator) {}
        ~PinnedKeys() {
            for (const ondisk::Key& key : keys) allocator_.unpin(key.ptr());
        }
        PinnedKeys(const PinnedKeys&) = delete;
        PinnedKeys& operator=(const PinnedKeys&) = delete;
        index::Pieces keys;

    private:
        alloc::Allocator& allocator_;
    };

    // Records how long it lived.
    class Stopwatch {
    public:
        Stopwatch(io::Clock& clock, LatencyHistogram& out)
            : clock_(clock), out_(out), start_(clock.now()) {}
        ~Stopwatch() { out_.add(clock_.now() - start_); }
        Stopwatch(const Stopwatch&) = delete;
        Stopwatch& operator=(const Stopwatch&) = delete;

    private:
        io::Clock& clock_;
        LatencyHistogram& out_;
        Instant start_;
    };

    // The set has failed. Without dirty data the volume goes on alone, its superblock saying so
    // (stale) before anything is written; with dirty data it cannot, and Errc::gone stands.
    Task<Result<void>> leave_failed_set();
    Task<Result<void>> go_alone();
    Task<Result<void>> modify_attached(WriteOp op);
    Result<void> check_request(std::uint64_t sector, std::uint64_t sectors, bool write) const;
    std::uint64_t offset() const { return backing_ ? backing_->data_offset() : 0; }
    bool aligned(std::uint64_t from, std::uint64_t to) const;

    // read_path.cc
    Reason decide_read(std::uint64_t from, std::uint64_t to);
    policy::BypassFacts facts(std::uint64_t from, std::uint64_t to) const;
    Reason decide(policy::BypassFacts& facts);
    Task<Result<void>> read_cached(std::uint64_t from, std::uint64_t to, std::byte* out,
                                   Reason reason);
    Task<Result<void>> read_from_cache(std::uint64_t sector, std::uint64_t sectors, std::byte* out);
    Task<Result<void>> read_hit(ondisk::Key extent, std::byte* out, bool& raced);
    Task<void> read_part(ReadPart& part, std::byte* out);
    Task<Result<void>> read_one(ReadPart& part, std::byte* out);
    std::vector<ReadPart> parts_of(const index::Pieces& pieces, std::uint64_t from,
                                   std::uint64_t to) const;
    Task<Result<bool>> read_parts(std::vector<ReadPart>& parts, std::uint64_t from, std::byte* out);
    Task<Result<void>> recover_part(ReadPart& part, std::byte* out);
    std::unique_ptr<Fill> begin_fill(const std::vector<ReadPart>& parts, Reason& reason);
    void finish_fill(std::unique_ptr<Fill> fill, std::uint64_t from, const std::byte* out);
    void count_read(const std::vector<ReadPart>& parts, Reason reason);
    Task<Result<void>> drop_extent(ondisk::Key extent);
    // A read or write of the cache that began at `start` has ended.
    void sample(Instant start, std::uint32_t threshold_us, LatencyHistogram& latencies);

    // write_path.cc
    Task<Result<void>> start(WriteOp op);
    Task<Result<void>> modify(WriteOp op);
    Task<Result<void>> write_unaligned(WriteOp op);
    Task<Result<void>> write_around_edges(WriteOp op);
    Task<Result<void>> modify_locked(WriteOp op);
    Task<Result<void>> write_direct(WriteOp op);
    Task<Result<bool>> write_past_set(WriteOp op);
    void count_past_set(const WriteOp& op);
    Task<Result<void>> write_dirty(WriteOp op);
    Task<Result<alloc::Space>> allocate(alloc::Stream stream, std::uint32_t sectors);
    Task<Result<void>> write_cache(const WriteOp& op, alloc::Stream stream, PinnedKeys& keys);
    Task<Result<void>> write_backing(WriteOp op, bool cache_it);
    Task<Result<void>> replace_dirty(WriteOp op);
    Task<Result<void>> write_discard(WriteOp op);
    Task<Result<void>> write_flash_records(WriteOp op);
    Task<void> commit_late(std::uint64_t from, std::uint64_t to, std::vector<ondisk::Key> keys);
    Task<Result<void>> send(const WriteOp& op, bool fua);
    Task<Result<void>> issue_to_backing(const WriteOp& op, bool fua);
    Task<Result<index::Overlap>> overlap(std::uint64_t from, std::uint64_t to);
    Task<Result<JournalSeq>> commit(std::uint64_t from, std::uint64_t to,
                                    std::span<const ondisk::Key> keys);
    // A write of the range is about to be answered.
    void note_unflushed(std::uint64_t from, std::uint64_t to);
    Task<Result<JournalSeq>> invalidate(std::uint64_t from, std::uint64_t to, bool keep_dirty);
    bool wants_writeback(const WriteOp& op, Reason reason, const index::Overlap& overlap) const;
    void keep_for_cache(const WriteOp& op);

    Task<Result<void>> write_back_dirty();

    // flush.cc
    Task<Result<void>> ensure_dirty_state();
    Task<void> become_clean();
    Task<void> housekeeping();
    void update_rate();
    Task<Result<void>> flush_keys();
    Task<Result<void>> flush_journal();
    Task<Result<void>> flush_backing();

    Services& services_;
    VolumeIdentity identity_;
    std::optional<Backing> backing_;
    std::uint64_t size_;
    bool attached_;
    bool detaching_ = false;
    bool stopping_ = false;
    VolumeOptions options_;
    mutable VolumeStats stats_;
    async::RangeLock writes_;          // requests of users that change a range
    async::RangeLock backing_writes_;  // writes to the backing device, write-back included
    std::optional<Fills> fills_;
    std::optional<writeback::Writeback> writeback_;
    policy::WritebackRate rate_;
    std::uint64_t shown_rate_ =
        policy::WritebackRate::kStart;  // what the controller put in options_
    policy::SequentialRuns runs_;
    std::function<void()> trouble_;
    std::function<void()> writeback_changed_;
    std::uint32_t dirty_writers_ = 0;
    std::uint32_t dirtying_pauses_ = 0;
    async::Mutex leaving_;
    struct Unflushed {
        JournalSeq seq = 0;
        SectorRange range;
    };
    std::deque<Unflushed> unflushed_;  // ascending seq; the front may be durable meanwhile
    std::uint64_t told_losses_ = 0;    // of backing_->losses()
    JournalSeq flush_seq_ = 0;         // entry that a flush must wait for
    JournalSeq removal_seq_ =
        0;  // entry with a record that writes to the backing device must wait for
    std::uint64_t in_flight_ = 0;
    async::Event idle_;
    async::Event tick_;
};

}  // namespace uc::core
