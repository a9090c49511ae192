// Two contents: `now_`, what reads return, and `durable_`, what surely survives. A write takes
// effect in `now_` when it completes and joins the write cache, a list in order of completion. A
// flush moves the part of the list that had completed when the flush was submitted into `durable_`;
// a write with FUA goes there at once and strikes out what older entries hold of its range, so that
// they cannot come back over it. A power cut gives every entry left, and every request in flight,
// its own fate: lost, whole, or torn into pieces of atomic_sectors(), and applies the survivors in
// order of completion: where two overlap, the later one wins if it survives at all. The unflushed
// requests in flight come last, in random order.
//
// The cache is bounded: beyond the bound the oldest entry becomes durable, as in a real disk.

#include "sim/sim_disk.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace uc::sim {

namespace {
constexpr std::uint64_t kCacheBytes = 8 << 20;
constexpr std::size_t kCacheEntries = 4096;
}  // namespace

struct SimDisk::Pending final : io::Timer {
    Pending(SimDisk& owner, io::IoRequest* what, std::uint64_t at)
        : disk(owner), request(what), stamp(at) {}
    void fire() override { disk.finish(*this); }

    SimDisk& disk;
    io::IoRequest* request;
    std::uint64_t stamp;
    std::list<Pending>::iterator self;
};

SimDisk::SimDisk(SimDiskOptions options, SimClock& clock, Rng rng, DiskObserver* observer)
    : options_(std::move(options)),
      clock_(clock),
      rng_(rng),
      observer_(observer),
      now_(options_.sectors),
      durable_(options_.sectors) {}

SimDisk::~SimDisk() {
    for (Pending& pending : pending_) clock_.cancel(&pending);
}

bool SimDisk::valid(const io::IoRequest& request) const {
    if (request.kind == io::IoKind::flush) return true;
    if (request.sectors == 0 || request.sectors > options_.sectors) return false;
    if (request.sector > options_.sectors - request.sectors) return false;
    const std::uint32_t block = options_.logical_block_sectors;
    return request.sector % block == 0 && request.sectors % block == 0;
}

bool SimDisk::submit(io::IoRequest* request) {
    if (observer_ != nullptr && !observer_->submitted(*this, *request)) return false;
    if (!valid(*request)) {
        request->fail({Errc::invalid, 22, "request outside the device or not on its blocks"});
        return true;
    }
    if (away_) {
        request->fail({Errc::io, 5, "the device is away"});
        return true;
    }
    if (request->kind == io::IoKind::discard && !options_.supports_discard) {
        request->fail({Errc::unsupported, 95, "no discard"});
        return true;
    }
    const std::uint64_t stamp = ++stamp_;
    if (rng_.percent(options_.immediate_percent)) {
        execute(*request, stamp);
        return true;
    }
    Pending& pending = pending_.emplace_back(*this, request, stamp);
    pending.self = std::prev(pending_.end());
    pending.due = clock_.now() + draw_delay();
    clock_.arm(&pending);
    return false;
}

Duration SimDisk::draw_delay() {
    const auto span = static_cast<std::uint64_t>((options_.slowest - options_.fastest).count());
    Duration delay = options_.fastest + Duration(rng_.below(span + 1));
    if (clock_.now() < storm_until_) delay *= storm_factor_;
    if (clock_.now() < hang_until_) delay += hang_until_ - clock_.now();
    return delay;
}

void SimDisk::storm(Instant until, unsigned factor) {
    storm_until_ = until;
    storm_factor_ = factor;
}

// Whether a fault has failed the request.
bool SimDisk::struck(io::IoRequest& request, std::uint64_t submitted_stamp) {
    std::vector<std::byte> first(request.kind == io::IoKind::read ? kSectorBytes : 0);
    if (!first.empty()) now_.read(request.sector, first);
    const std::optional<Fault> fault = faults_.strike(request, first);
    if (!fault) return false;
    if (fault->flip) {
        ++mishaps_.flips;
        now_.read(request.sector, {request.data, request.sectors * kSectorBytes});
        flip_bit(request);
        return true;
    }
    request.fail({Errc::io, 5, "simulated I/O error"});
    if (request.kind == io::IoKind::flush) {
        ++mishaps_.flush_errors;
        forget_some(submitted_stamp);
        return true;
    }
    ++mishaps_.errors;
    if (request.kind != io::IoKind::read) take_part(request);
    return true;
}

// In the first sector: behind the end of the structure a wrong bit would harm nobody.
void SimDisk::flip_bit(io::IoRequest& request) {
    const std::uint64_t bit = rng_.below(64 * 8);
    request.data[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
}

// A write that failed may have left a part of itself.
void SimDisk::take_part(const io::IoRequest& request) {
    if (rng_.percent(40)) return;
    const std::uint64_t unit = options_.atomic_sectors;
    const std::uint64_t end = request.sector + request.sectors;
    for (std::uint64_t at = request.sector; at < end;) {
        const std::uint64_t next = std::min(end, (at / unit + 1) * unit);
        if (rng_.percent(50)) {
            io::IoRequest part = request;
            part.sector = at;
            part.sectors = next - at;
            part.fua = false;
            if (part.data != nullptr) part.data += (at - request.sector) * kSectorBytes;
            take_write(part);
        }
        at = next;
    }
}

// A flush that fails: some of what it should have made durable never will be, and no later flush
// says so.
void SimDisk::forget_some(std::uint64_t stamp) {
    std::erase_if(cache_, [&](const Cached& entry) {
        if (entry.stamp >= stamp || !rng_.percent(30)) return false;
        cached_bytes_ -= entry.data.size();
        forgotten_ = true;
        return true;
    });
}

bool SimDisk::settle_forgotten() {
    if (!std::exchange(forgotten_, false)) return false;
    now_ = durable_;
    for (const Cached& entry : cache_) put(now_, entry, 0, entry.sectors);
    return true;
}

void SimDisk::vanish() {
    away_ = true;
    while (!pending_.empty()) {
        Pending& pending = pending_.front();
        clock_.cancel(&pending);
        io::IoRequest* const request = pending.request;
        pending_.pop_front();
        ++stamp_;
        const bool changes =
            request->kind != io::IoKind::read && request->kind != io::IoKind::flush;
        if (changes && request->kind != io::IoKind::discard) take_part(*request);
        request->fail({Errc::io, 5, "the device is away"});
        if (observer_ != nullptr) observer_->completed(*this, *request);
        request->waiter->wake();
    }
}

void SimDisk::finish(Pending& pending) {
    io::IoRequest* const request = pending.request;
    const std::uint64_t stamp = pending.stamp;
    pending_.erase(pending.self);
    execute(*request, stamp);
    request->waiter->wake();
}

void SimDisk::execute(io::IoRequest& request, std::uint64_t submitted_stamp) {
    ++stamp_;
    request.succeed();
    if (request.kind != io::IoKind::read && request.kind != io::IoKind::flush) ++changes_;
    if (!struck(request, submitted_stamp)) {
        switch (request.kind) {
            case io::IoKind::read:
                now_.read(request.sector, {request.data, request.sectors * kSectorBytes});
                break;
            case io::IoKind::write:
            case io::IoKind::write_zeroes:
                take_write(request);
                break;
            case io::IoKind::flush:
                destage_before(submitted_stamp);
                break;
            case io::IoKind::discard:
                if (rng_.percent(70)) take_write(request);  // else the disk ignores it
                break;
        }
    }
    if (observer_ != nullptr) observer_->completed(*this, request);
}

void SimDisk::take_write(const io::IoRequest& request) {
    Cached entry;
    entry.stamp = stamp_;
    entry.sector = request.sector;
    entry.sectors = request.sectors;
    const bool has_data = request.kind == io::IoKind::write;
    if (has_data) entry.data.assign(request.data, request.data + request.sectors * kSectorBytes);
    put(now_, entry, 0, entry.sectors);
    if (request.fua) {
        kill_overlap(entry.sector, entry.sectors);
        put(durable_, entry, 0, entry.sectors);
        return;
    }
    cached_bytes_ += entry.data.size();
    cache_.push_back(std::move(entry));
    limit_cache();
}

void SimDisk::kill_overlap(std::uint64_t sector, std::uint64_t sectors) {
    for (Cached& entry : cache_) {
        const std::uint64_t from = std::max(entry.sector, sector);
        const std::uint64_t to = std::min(entry.sector + entry.sectors, sector + sectors);
        if (from >= to) continue;
        entry.dead.resize(entry.sectors);
        for (std::uint64_t s = from; s < to; ++s) entry.dead[s - entry.sector] = true;
    }
}

void SimDisk::put(Contents& contents, const Cached& entry, std::uint64_t from,
                  std::uint64_t count) const {
    const std::span<const std::byte> data = entry.data;
    const auto run = [&](std::uint64_t at, std::uint64_t length) {
        if (data.empty()) {
            contents.zero(entry.sector + at, length);
        } else {
            contents.write(entry.sector + at,
                           data.subspan(at * kSectorBytes, length * kSectorBytes));
        }
    };
    if (entry.dead.empty()) return run(from, count);
    for (std::uint64_t at = from; at < from + count; ++at) {
        if (!entry.dead[at]) run(at, 1);
    }
}

void SimDisk::destage(const Cached& entry) {
    put(durable_, entry, 0, entry.sectors);
    cached_bytes_ -= entry.data.size();
}

void SimDisk::destage_before(std::uint64_t stamp) {
    while (!cache_.empty() && cache_.front().stamp < stamp) {
        destage(cache_.front());
        cache_.pop_front();
    }
}

void SimDisk::limit_cache() {
    while (cached_bytes_ > kCacheBytes || cache_.size() > kCacheEntries) {
        destage(cache_.front());
        cache_.pop_front();
    }
}

SimDisk::Fate SimDisk::draw_fate(unsigned survive_percent) {
    if (rng_.percent(20)) return Fate::torn;
    return rng_.percent(survive_percent) ? Fate::whole : Fate::lost;
}

void SimDisk::settle(const Cached& entry, Fate fate) {
    if (fate == Fate::lost) return;
    if (fate == Fate::whole) return put(durable_, entry, 0, entry.sectors);
    const std::uint64_t unit = options_.atomic_sectors;
    const std::uint64_t end = entry.sector + entry.sectors;
    for (std::uint64_t at = entry.sector; at < end;) {
        const std::uint64_t next = std::min(end, (at / unit + 1) * unit);
        if (rng_.percent(50)) put(durable_, entry, at - entry.sector, next - at);
        at = next;
    }
}

void SimDisk::crash(CrashKind kind) {
    away_ = false;
    hang_until_ = storm_until_ = Instant{};
    std::vector<io::IoRequest*> cut;
    for (Pending& pending : pending_) {
        clock_.cancel(&pending);
        const io::IoKind what = pending.request->kind;
        if (what != io::IoKind::read && what != io::IoKind::flush) cut.push_back(pending.request);
    }
    pending_.clear();
    for (std::size_t left = cut.size(); left > 0; --left) {
        std::swap(cut[left - 1], cut[rng_.below(left)]);
        io::IoRequest request = *cut[left - 1];
        request.fua = false;
        ++stamp_;
        if (kind == CrashKind::power_cut || rng_.percent(50)) take_write(request);
    }
    if (kind == CrashKind::power_cut) settle_cache(cut.size());
}

void SimDisk::lose_cache() {
    settle_cache(0);
}

// The last `in_flight` entries of the cache were not acknowledged.
void SimDisk::settle_cache(std::size_t in_flight) {
    // Some cuts lose almost everything, some almost nothing.
    static constexpr unsigned kSurvive[] = {0, 10, 50, 90, 100};
    const unsigned survive = kSurvive[rng_.below(std::size(kSurvive))];
    for (std::size_t i = 0; i < cache_.size(); ++i) {
        const bool cut = i + in_flight >= cache_.size();
        settle(cache_[i], draw_fate(cut ? 50 : survive));
    }
    cache_.clear();
    cached_bytes_ = 0;
    forgotten_ = false;
    now_ = durable_;
}

void SimDisk::poke(std::uint64_t sector, std::span<const std::byte> in) {
    kill_overlap(sector, in.size() / kSectorBytes);
    now_.write(sector, in);
    durable_.write(sector, in);
}

std::shared_ptr<const SimDisk::Snapshot> SimDisk::snapshot() const {
    return std::make_shared<Snapshot>(Snapshot{now_, durable_, cache_, cached_bytes_});
}

void SimDisk::restore(const Snapshot& snapshot) {
    CHECK(pending_.empty());
    now_ = snapshot.now;
    durable_ = snapshot.durable;
    cache_ = snapshot.cache;
    cached_bytes_ = snapshot.cached_bytes;
}

}  // namespace uc::sim
