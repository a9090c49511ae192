#include "sim/journal_image.h"

#include <algorithm>
#include <utility>

#include "io/buffer.h"

namespace uc::sim {

namespace {

// The kernel's list of entries while it searches.
class Accepted {
public:
    // True if the slot gave a new entry.
    bool add(const std::vector<ondisk::Jset>& slot) {
        bool any = false;
        for (const ondisk::Jset& entry : slot) any |= accept(entry);
        return any;
    }
    JournalSeq newest() const { return entries_.empty() ? 0 : entries_.rbegin()->first; }
    const Entries& entries() const { return entries_; }

private:
    bool accept(const ondisk::Jset& entry) {
        if (entry.seq < last_seq_ || entries_.contains(entry.seq)) return false;
        last_seq_ = std::max(last_seq_, entry.last_seq);
        entries_.erase(entries_.begin(), entries_.lower_bound(last_seq_));
        entries_.emplace(entry.seq, &entry);
        return true;
    }

    Entries entries_;
    JournalSeq last_seq_ = 0;
};

}  // namespace

JournalImage::JournalImage(const ondisk::Geometry& geometry, std::uint64_t set_magic,
                           const SlotReader& read)
    : slots_(geometry.njournal) {
    const std::size_t bucket_bytes = std::size_t{geometry.bucket_sectors} * kSectorBytes;
    io::Buffer buffer(bucket_bytes);
    for (std::uint32_t slot = 0; slot < geometry.njournal; ++slot) {
        if (!read(geometry.bucket_start(geometry.first_bucket + slot), buffer.span())) continue;
        std::size_t at = 0;
        while (at < bucket_bytes) {
            auto entry = ondisk::decode_jset(buffer.span().subspan(at), set_magic);
            if (!entry) break;
            at += std::size_t{geometry.blocks(ondisk::jset_bytes(*entry))} * geometry.block_bytes();
            slots_[slot].push_back(std::move(*entry));
        }
    }
}

Entries JournalImage::scan_all() const {
    Accepted accepted;
    for (const auto& slot : slots_) accepted.add(slot);
    return accepted.entries();
}

Entries JournalImage::kernel_search() const {
    const std::size_t n = slots_.size();
    std::vector<bool> read(n);
    Accepted accepted;
    const auto read_slot = [&](std::size_t slot) {
        read[slot] = true;
        return accepted.add(slots_[slot]);
    };
    std::size_t hit = n;
    for (std::uint32_t i = 0; i < n && hit == n; ++i) {
        const std::size_t slot = static_cast<std::uint32_t>(i * 2654435769U) % n;
        if (read[slot]) break;
        if (read_slot(slot)) hit = slot;
    }
    for (std::size_t slot = 0; slot < n && hit == n; ++slot) {
        if (!read[slot] && read_slot(slot)) hit = slot;
    }
    if (hit == n) return {};

    std::size_t left = hit;
    std::size_t right = hit + 1;
    while (right < n && !read[right]) ++right;
    while (left + 1 < right) {
        const std::size_t middle = (left + right) / 2;
        const JournalSeq before = accepted.newest();
        read_slot(middle);
        (accepted.newest() > before ? left : right) = middle;
    }
    for (std::size_t i = 0, slot = left; i < n; ++i) {
        slot = slot == 0 ? n - 1 : slot - 1;
        if (read[slot]) continue;
        if (!read_slot(slot)) break;
    }
    return accepted.entries();
}

std::vector<const ondisk::Jset*> needed_entries(const Entries& entries, bool discard,
                                                std::vector<std::string>& problems) {
    std::vector<const ondisk::Jset*> needed;
    if (entries.empty()) {
        problems.push_back("no journal entries found");
        return needed;
    }
    const ondisk::Jset& newest = *entries.rbegin()->second;
    JournalSeq expected = newest.last_seq;
    for (auto at = entries.lower_bound(newest.last_seq); at != entries.end(); ++at) {
        if (at->first != expected && !(discard && needed.empty())) {
            problems.push_back("journal entries " + std::to_string(expected) + "-" +
                               std::to_string(at->first - 1) + " missing");
        }
        expected = at->first + 1;
        needed.push_back(at->second);
    }
    return needed;
}

}  // namespace uc::sim
