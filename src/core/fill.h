// Clean data on its way into the cache: what a read missed, or what a write sent to the backing
// device.
//
// A fill always loses against a write. It is known here from before the backing device is read
// until its keys are in the index; every write to an overlapping range cancels it.
//
// A clean extent must never become durable before the same data are durable on the backing device:
// after a power cut the cache would show the new value until the extent is evicted, and then the
// old one (weakness 11.5). So a fill whose range was written since the last flush waits for the
// next one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backing.h"
#include "core/services.h"
#include "io/buffer.h"

namespace uc::core {

struct Fill : async::WaitLink {
    struct Piece {
        std::uint64_t from = 0, to = 0;  // backing-device sectors
    };
    std::uint64_t from = 0, to = 0;  // hull of the pieces
    std::vector<Piece> pieces;
    io::Buffer data;  // of the hull
    bool cancelled = false;
    std::uint64_t needs_flush = 0;  // backing flush that must be done first; 0: none
    std::vector<ondisk::Key> keys;  // written to the cache, their buckets pinned
};

class Fills {
public:
    // `inode` changes while no fill is under way.
    Fills(Services& services, Backing& backing, const Inode& inode, VolumeStats& stats);
    ~Fills();
    Fills(const Fills&) = delete;
    Fills& operator=(const Fills&) = delete;

    void run(async::TaskGroup& group);
    void stop();

    // Registers a fill of [from, to); null if too much is under way. Nothing is written yet.
    std::unique_ptr<Fill> begin(std::uint64_t from, std::uint64_t to);
    // A write to [from, to) starts: overlapping fills are lost.
    void cancel(std::uint64_t from, std::uint64_t to);
    // The data are there: writes them to the cache and inserts the keys, in the background.
    void finish(std::unique_ptr<Fill> fill);
    // The data could not be had.
    void abandon(std::unique_ptr<Fill> fill) { release(*fill); }
    // Somebody needs buckets: what waits for a backing flush lets go of its own.
    void give_way();
    // A backing flush was done: what waited for it may go on.
    void flushed() { wake_.notify(); }
    // It failed: the backing device may have dropped what was to become durable, so nothing that is
    // under way may enter the index.
    void flush_failed();

private:
    Task<void> store(std::unique_ptr<Fill> fill);
    Task<Result<void>> write_data(Fill& fill);
    Task<Result<void>> insert(Fill& fill);
    Task<Result<void>> insert_gaps(Fill& fill, ondisk::Key key);
    Task<void> committer();
    Task<void> commit_ready();
    void release(Fill& fill);

    Services& services_;
    Backing& backing_;
    const Inode& inode_;
    VolumeStats& stats_;
    async::TaskGroup* group_ = nullptr;
    async::WaitLink active_;
    std::uint64_t bytes_ = 0;
    std::vector<std::unique_ptr<Fill>> deferred_;
    async::Event wake_;
    bool stopping_ = false;
};

}  // namespace uc::core
