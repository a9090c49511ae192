// Reading the ring (format 4.7, 4.8). The kernel probes and bisects; we read every slot, at most
// 256, a few at the same time. Each slot is read from its start in large pieces until no valid
// entry of this set follows: old content behind the newest entry is either valid and below
// last_seq, so dropped, or not an entry at all. A torn last entry just ends its slot.
//
// The window of a slot always holds 32 KiB, the largest entry, or everything up to the slot's end,
// so an entry can be judged without knowing where pieces meet:
//
//   | parsed | unparsed ......... | not read yet |          move the unparsed part to the front of
//            ^ less than 32 KiB left here: refill           the buffer, read on behind it
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "journal/journal.h"

namespace uc::journal {

namespace {

constexpr std::size_t kWindowBytes = 256 * 1024;
constexpr std::uint32_t kReaders = 8;

struct Scan {
    Scan(io::BlockDevice& device, const ondisk::Geometry& shape, std::uint64_t magic,
         Recovered& result)
        : cache(device), geometry(shape), set_magic(magic), out(result) {}

    io::BlockDevice& cache;
    const ondisk::Geometry& geometry;
    std::uint64_t set_magic;
    Recovered& out;
    std::uint32_t next_slot = 0;
    std::map<JournalSeq, ondisk::Jset> accepted;
    JournalSeq last_seq = 0;  // highest of any accepted entry
    JournalSeq newest = 0;
    bool failed = false;
    Error error{};
};

// The part of one slot that is in memory.
struct Window {
    explicit Window(const ondisk::Geometry& geometry)
        : slot_bytes(std::uint64_t{geometry.bucket_sectors} * kSectorBytes),
          buffer(static_cast<std::size_t>(std::min<std::uint64_t>(kWindowBytes, slot_bytes))) {}

    std::uint64_t slot_bytes;
    io::Buffer buffer;
    std::uint64_t start = 0;  // offset in the slot of the buffer's first byte
    std::size_t filled = 0;   // bytes in the buffer
    std::size_t parsed = 0;   // of these

    void restart() { start = filled = parsed = 0; }
    std::uint64_t unread() const { return slot_bytes - start - filled; }
    std::span<const std::byte> rest() const { return buffer.span().first(filled).subspan(parsed); }
    bool needs_more() const { return filled - parsed < ondisk::kJsetMaxBytes && unread() > 0; }
    // Makes room; returns where to read to.
    std::span<std::byte> refill() {
        std::memmove(buffer.data(), buffer.data() + parsed, filled - parsed);
        start += parsed;
        filled -= parsed;
        parsed = 0;
        const std::uint64_t bytes = std::min<std::uint64_t>(buffer.size() - filled, unread());
        return buffer.span().subspan(filled, static_cast<std::size_t>(bytes));
    }
};

void accept(Scan& scan, ondisk::Jset jset, std::uint32_t slot, std::uint32_t end_block) {
    JournalSeq& slot_newest = scan.out.slot_newest[slot];
    slot_newest = std::max(slot_newest, jset.seq);
    if (jset.seq < scan.last_seq) return;
    if (jset.seq > scan.newest) {
        scan.newest = jset.seq;
        scan.out.newest_slot = slot;
        scan.out.newest_end_block = end_block;
    }
    scan.last_seq = std::max(scan.last_seq, jset.last_seq);
    const JournalSeq seq = jset.seq;
    scan.accepted.try_emplace(seq, std::move(jset));
    scan.accepted.erase(scan.accepted.begin(), scan.accepted.lower_bound(scan.last_seq));
}

// Takes the entries at the front of the window. False: no valid entry follows.
bool parse(Scan& scan, Window& window, std::uint32_t slot) {
    while (window.filled != window.parsed && !window.needs_more()) {
        Result<ondisk::Jset> jset = ondisk::decode_jset(window.rest(), scan.set_magic);
        if (!jset || jset->seq == 0 || jset->last_seq > jset->seq) return false;
        const std::uint64_t bytes = std::uint64_t{scan.geometry.blocks(ondisk::jset_bytes(*jset))} *
                                    scan.geometry.block_bytes();
        if (bytes > window.rest().size()) return false;
        window.parsed += static_cast<std::size_t>(bytes);
        const std::uint64_t end = window.start + window.parsed;
        accept(scan, std::move(*jset), slot, scan.geometry.blocks(end));
    }
    return window.unread() > 0;
}

Task<Result<void>> read_slot(Scan& scan, Window& window, std::uint32_t slot) {
    const std::uint64_t sector = scan.geometry.bucket_start(scan.geometry.first_bucket + slot);
    window.restart();
    bool more = true;
    while (more) {
        const std::span<std::byte> target = window.refill();
        const std::uint64_t at = sector + (window.start + window.filled) / kSectorBytes;
        CO_OK(co_await scan.cache.read(at, target));
        window.filled += target.size();
        more = parse(scan, window, slot);
    }
    co_return Result<void>();
}

Task<void> read_slots(Scan& scan) {
    Window window(scan.geometry);
    while (scan.next_slot < scan.geometry.njournal && !scan.failed) {
        const std::uint32_t slot = scan.next_slot++;
        const Result<void> done = co_await read_slot(scan, window, slot);
        if (!done && !scan.failed) {
            scan.failed = true;
            scan.error = done.error();
        }
    }
}

// The executor of the task that awaits it.
class CurrentExecutor {
public:
    bool await_ready() { return false; }
    template <class P>
    bool await_suspend(std::coroutine_handle<P> self) {
        executor_ = self.promise().executor;
        return false;
    }
    async::Executor* await_resume() { return executor_; }

private:
    async::Executor* executor_ = nullptr;
};

CurrentExecutor current_executor() {
    return CurrentExecutor();
}

// Moves what the newest entry needs to out.entries, or names the gap.
Result<void> collect(Scan& scan, bool discard, Mutations mutations) {
    if (scan.accepted.empty()) {
        scan.out.problem = "no journal entries found";
        return fail(Errc::corrupt, "no journal entries found");
    }
    const JournalSeq last = scan.accepted.rbegin()->second.last_seq;
    const JournalSeq newest = scan.newest;
    JournalSeq expected = last;
    for (auto& [seq, jset] : scan.accepted) {
        const bool tolerated = discard && expected == last;
        if (seq != expected && !tolerated && !mutations.has(Mutation::accept_journal_gap)) {
            scan.out.problem = "journal entries " + std::to_string(expected) + "-" +
                               std::to_string(seq - 1) + " missing! (replaying " +
                               std::to_string(last) + "-" + std::to_string(newest) + ")";
            return fail(Errc::corrupt, "journal entries missing");
        }
        expected = seq + 1;
        scan.out.entries.push_back(std::move(jset));
    }
    return {};
}

}  // namespace

Task<Result<void>> read_ring(io::BlockDevice& cache, const ondisk::Geometry& geometry,
                             std::uint64_t set_magic, bool discard, Recovered& out,
                             Mutations mutations) {
    out = Recovered();
    out.slot_newest.assign(geometry.njournal, 0);
    Scan scan(cache, geometry, set_magic, out);
    async::Executor* const executor = co_await current_executor();
    async::TaskGroup readers(*executor);
    for (std::uint32_t i = 0; i < std::min(kReaders, geometry.njournal); ++i) {
        readers.spawn(read_slots(scan));
    }
    co_await readers.drained();
    if (scan.failed) co_return tl::unexpected(scan.error);
    co_return collect(scan, discard, mutations);
}

}  // namespace uc::journal
