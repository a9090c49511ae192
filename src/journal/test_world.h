// What the journal's tests run on: a disk that records the order of requests and can hold, fail or
// watch them, a clock moved by hand, and a journal between them.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/executor.h"
#include "journal/journal.h"

namespace uc::journal::test {

class FakeDisk final : public io::BlockDevice {
public:
    explicit FakeDisk(std::uint64_t sectors) : bytes(sectors * kSectorBytes) {}
    explicit FakeDisk(std::vector<std::byte> image) : bytes(std::move(image)) {}

    bool submit(io::IoRequest* request) override {
        if (hold) {
            held.push_back(request);
            return false;
        }
        perform(*request);
        return true;
    }
    // Completes the oldest held request.
    void complete_one() {
        io::IoRequest* const request = held.front();
        held.erase(held.begin());
        perform(*request);
        request->waiter->wake();
    }
    std::uint64_t size_sectors() const override { return bytes.size() / kSectorBytes; }
    std::uint32_t logical_block_sectors() const override { return 1; }
    const std::string& name() const override { return name_; }

    std::vector<std::byte> bytes;
    bool hold = false;
    std::vector<io::IoRequest*> held;
    std::string log;  // r, f (flush), w (write), W (write with FUA)
    bool fail_writes = false;
    bool fail_flushes = false;
    bool fail_reads = false;
    std::function<void(const io::IoRequest&)> before_write;
    std::function<void()> after_write;

private:
    void perform(io::IoRequest& request) {
        request.succeed();
        const std::size_t length = request.sectors * kSectorBytes;
        std::byte* const at = bytes.data() + request.sector * kSectorBytes;
        switch (request.kind) {
            case io::IoKind::read:
                log += 'r';
                if (fail_reads) return request.fail({Errc::io, 5, "read failed"});
                std::memcpy(request.data, at, length);
                return;
            case io::IoKind::flush:
                log += 'f';
                if (fail_flushes) request.fail({Errc::io, 5, "flush failed"});
                return;
            default:
                log += request.fua ? 'W' : 'w';
                if (fail_writes) return request.fail({Errc::io, 5, "write failed"});
                if (before_write) before_write(request);
                std::memcpy(at, request.data, length);
                if (after_write) after_write();
        }
    }
    std::string name_ = "fake";
};

class ManualClock final : public io::Clock {
public:
    Instant now() const override { return now_; }
    std::uint32_t wall_seconds() const override { return 0; }
    void arm(io::Timer* timer) override {
        timer->order = ++armed_;
        timer->armed = true;
        timers_.emplace(std::pair(timer->due, timer->order), timer);
    }
    void cancel(io::Timer* timer) override {
        if (timer->armed) timers_.erase(std::pair(timer->due, timer->order));
        timer->armed = false;
    }
    void advance(Duration by) {
        now_ = now_ + by;
        while (!timers_.empty() && timers_.begin()->first.first <= now_) {
            io::Timer* const timer = timers_.begin()->second;
            timers_.erase(timers_.begin());
            timer->armed = false;
            timer->fire();
        }
    }

private:
    Instant now_;
    std::uint64_t armed_ = 0;
    std::map<std::pair<Instant, std::uint64_t>, io::Timer*> timers_;
};

inline constexpr std::uint64_t kMagic = 0x1122334455667788;

struct Shape {
    std::uint32_t slots = 4;
    std::uint32_t block_sectors = 1;
    std::uint32_t bucket_sectors = 128;
};

inline ondisk::Geometry geometry_of(Shape shape) {
    ondisk::Geometry geometry;
    geometry.block_sectors = shape.block_sectors;
    geometry.bucket_sectors = shape.bucket_sectors;
    geometry.first_bucket = ondisk::Geometry::first_bucket_for(shape.bucket_sectors);
    geometry.njournal = shape.slots;
    geometry.nbuckets = geometry.first_bucket + shape.slots;
    return geometry;
}

inline ondisk::Key key(std::uint64_t id) {
    return ondisk::Key::extent(1, 8 * id + 8, 8, ondisk::Ptr::make(4096, Gen(1)), true);
}

inline std::vector<ondisk::Key> keys(std::size_t count, std::uint64_t first_id = 1) {
    std::vector<ondisk::Key> list;
    for (std::size_t i = 0; i < count; ++i) list.push_back(key(first_id + i));
    return list;
}

inline Roots some_roots() {
    Roots roots;
    roots.uuid_bucket =
        ondisk::Key::pointer(ondisk::kPosZero, 128, ondisk::Ptr::make(8192, Gen(1)));
    roots.btree_root = ondisk::Key::pointer(ondisk::kPosMax, 128, ondisk::Ptr::make(9216, Gen(1)));
    roots.prio_bucket = 7;
    return roots;
}

inline Task<void> keep_result(Task<Result<void>> task, std::optional<Result<void>>& out) {
    Result<void> result = co_await std::move(task);
    out = result;
}

struct World {
    explicit World(Shape shape)
        : geometry(geometry_of(shape)), disk(geometry.nbuckets * geometry.bucket_sectors) {
        journal = make();
    }
    ~World() { executor.drop_all(); }

    std::unique_ptr<Journal> make() {
        return std::make_unique<Journal>(executor, clock, disk, geometry, kMagic, delay_ms);
    }
    void start_blank() {
        journal->start_blank(some_roots());
        journal->run(group);
        executor.run_ready();
    }
    // Runs `task` as far as it gets; its result, if it ended.
    std::optional<Result<void>>& begin(Task<Result<void>> task) {
        results.push_back(std::make_unique<std::optional<Result<void>>>());
        executor.spawn(keep_result(std::move(task), *results.back()));
        executor.run_ready();
        return *results.back();
    }
    bool flush() {
        const std::optional<Result<void>>& result = begin(journal->flush(journal->open_seq()));
        return result && *result;
    }
    bool flush(JournalSeq seq) {
        const std::optional<Result<void>>& result = begin(journal->flush(seq));
        return result && *result;
    }
    JournalSeq append(std::size_t count) {
        const std::vector<ondisk::Key> list = keys(count);
        return journal->append(list);
    }
    void advance(Duration by) {
        clock.advance(by);
        executor.run_ready();
    }

    ondisk::Geometry geometry;
    std::uint32_t delay_ms = 100;
    FakeDisk disk;
    ManualClock clock;
    async::Executor executor;
    async::TaskGroup group{executor};
    std::unique_ptr<Journal> journal;
    std::vector<std::unique_ptr<std::optional<Result<void>>>> results;
};

// What a recovery of `image` would find.
struct Reading {
    Result<void> result;
    Recovered found;
};
inline Reading read_image(const std::vector<std::byte>& image, const ondisk::Geometry& geometry,
                          bool discard = false) {
    FakeDisk disk(image);
    async::Executor executor;
    Reading reading;
    std::optional<Result<void>> result;
    executor.spawn(keep_result(read_ring(disk, geometry, kMagic, discard, reading.found), result));
    executor.run_ready();
    CHECK(result.has_value());
    reading.result = *result;
    return reading;
}

}  // namespace uc::journal::test
