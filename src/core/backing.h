// A backing device: its superblock, and what has been written to it since it was last flushed.
#pragma once

#include <absl/container/btree_set.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "async/sync.h"
#include "async/task.h"
#include "base/mutations.h"
#include "base/result.h"
#include "io/block_device.h"
#include "ondisk/superblock.h"

namespace uc::core {

class Backing {
public:
    Backing(io::BlockDevice& device, const ondisk::Superblock& superblock, Mutations mutations = {})
        : device_(device),
          superblock_(superblock),
          mutations_(mutations),
          state_(superblock.state()),
          words_{{superblock.set_uuid, superblock.state()}} {}
    Backing(const Backing&) = delete;
    Backing& operator=(const Backing&) = delete;

    io::BlockDevice& device() { return device_; }
    const io::BlockDevice& device() const { return device_; }
    const ondisk::Superblock& superblock() const { return superblock_; }
    std::uint64_t data_offset() const { return superblock_.data_offset(); }
    std::uint64_t size_sectors() const { return device_.size_sectors() - data_offset(); }
    // What the superblock on disk says, or less: `clean` while a change to clean is under way.
    ondisk::BackingState state() const { return state_; }

    // Changes to the superblock are made in this copy under the lock, then written with save().
    async::Mutex& superblock_lock() { return superblock_lock_; }
    ondisk::Superblock& edit() { return superblock_; }
    Task<Result<void>> save();  // durable when it returns
    // Each takes the lock, and is durable when it returns. Nothing happens in a state that does not
    // fit.
    Task<Result<void>> become_dirty();
    Task<Result<void>> become_clean();               // from dirty
    Task<Result<void>> leave_set();                  // state none, no set
    Task<Result<void>> enter_set(ondisk::Uuid set);  // state clean, from none or stale
    Task<Result<void>>
    become_stale();  // runs without its set: what the cache has must not be used again

    Task<Result<void>> reassert();  // writes what the superblock should say
    // Whether it may say so: what was written last, or by an attempt that failed since, which may
    // have reached the device all the same.
    bool may_say(const ondisk::Superblock& there) const;

    // Sectors [from, to) of the device were written and are not known to be durable.
    void wrote(std::uint64_t from, std::uint64_t to);
    // The same, and somebody was told that the write is done and relies on a later flush.
    void wrote_for_user(std::uint64_t from, std::uint64_t to) {
        wrote(from, to);
        user_since_flush_ = true;
    }
    // No part of the range was written since the last flush that covers it.
    bool durable(std::uint64_t from, std::uint64_t to) const;
    // A flush has failed that should have made some of the range durable. The device may show what
    // was written and lose it later, although a later flush succeeds.
    bool doubtful(std::uint64_t from, std::uint64_t to) const { return touch(doubtful_, from, to); }
    bool needs_flush() const { return !since_flush_.empty() || !flushing_.empty(); }
    // Flushes; nothing to do if nothing was written. Callers at the same time share one. After a
    // failure a later flush may succeed although the device has dropped what it could not write:
    // see losses().
    Task<Result<void>> flush();
    // The device was away and is back: what it had not made durable may be gone, so the next flush,
    // if there is anything to flush, fails without asking it.
    void came_back() { away_ = needs_flush() && !mutations_.has(Mutation::backing_loss_not_told); }
    // The set was opened anew: what the device may have lost in the time of `old` is still to be
    // told. `told`: losses of `old` that were.
    void inherit(const Backing& old, std::uint64_t told);
    // How many flushes failed that users' writes relied on, whoever asked for them.
    std::uint64_t losses() const { return losses_; }
    // How many flushes failed, whoever asked for them: what was written before such a failure may
    // be gone although a later flush succeeds (spec 11.3).
    std::uint64_t flush_failures() const { return failures_; }
    // A number that a flush started from now on will have or exceed, and the highest one completed:
    // what was written before next_flush() was read is durable when done_flush() has reached it.
    std::uint64_t next_flush() const { return started_ + 1; }
    std::uint64_t done_flush() const { return done_; }

private:
    Task<Result<void>> change_set(ondisk::Uuid set, ondisk::BackingState state);

    using Chunks = absl::btree_set<std::uint64_t>;  // of 1 MiB
    static bool touch(const Chunks& chunks, std::uint64_t from, std::uint64_t to);

    struct Words {  // that a superblock may say
        ondisk::Uuid set;
        ondisk::BackingState state;
        bool operator==(const Words&) const = default;
    };

    io::BlockDevice& device_;
    ondisk::Superblock superblock_;
    Mutations mutations_;
    ondisk::BackingState state_;
    std::vector<Words> words_;
    async::Mutex superblock_lock_;
    Chunks since_flush_;
    bool user_since_flush_ = false;
    std::uint64_t losses_ = 0;
    std::uint64_t failures_ = 0;
    bool away_ = false;  // since the last flush
    Chunks doubtful_;
    Chunks flushing_;  // what a flush under way covers, or one that failed should have
    async::Mutex flush_lock_;
    std::uint64_t started_ = 0;
    std::uint64_t done_ = 0;
};

}  // namespace uc::core
