// The search for journal entries as format 4.7 describes it (probe, bisect, walk down), coded apart
// from read_ring() and on plain bytes: what the kernel would find in a ring that we filled.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ondisk/geometry.h"
#include "ondisk/jset.h"

namespace uc::journal::test {

class KernelSearch {
public:
    KernelSearch(std::span<const std::byte> image, const ondisk::Geometry& geometry,
                 std::uint64_t magic)
        : image_(image), geometry_(geometry), magic_(magic), probed_(geometry.njournal) {}

    // Entries by seq, those below any last_seq dropped.
    const std::map<JournalSeq, ondisk::Jset>& run() {
        const std::uint32_t n = geometry_.njournal;
        std::uint32_t left = find_any();
        if (left == n) return entries_;
        std::uint32_t right = left + 1;
        while (right < n && !probed_[right]) ++right;
        while (left + 1 < right) {
            const JournalSeq seq = newest();
            const std::uint32_t middle = (left + right) / 2;
            read_slot(middle);
            (newest() > seq ? left : right) = middle;
        }
        std::uint32_t slot = left;
        for (std::uint32_t i = 0; i < n; ++i) {
            slot = slot == 0 ? n - 1 : slot - 1;
            if (slot == left) break;
            if (probed_[slot]) continue;
            if (!read_slot(slot)) break;
        }
        return entries_;
    }

private:
    JournalSeq newest() const { return entries_.empty() ? 0 : entries_.rbegin()->first; }

    std::uint32_t find_any() {
        const std::uint32_t n = geometry_.njournal;
        for (std::uint32_t i = 0; i < n; ++i) {
            const std::uint32_t slot = static_cast<std::uint32_t>(i * 2654435769u) % n;
            if (probed_[slot]) break;
            if (read_slot(slot)) return slot;
        }
        for (std::uint32_t slot = 0; slot < n; ++slot) {
            if (!probed_[slot] && read_slot(slot)) return slot;
        }
        return n;
    }

    // True if an entry was accepted.
    bool read_slot(std::uint32_t slot) {
        probed_[slot] = true;
        const std::uint64_t slot_bytes = std::uint64_t{geometry_.bucket_sectors} * 512;
        const std::uint64_t begin = (geometry_.first_bucket + slot) * slot_bytes;
        bool accepted = false;
        for (std::uint64_t offset = 0; offset < slot_bytes;) {
            const Result<ondisk::Jset> jset =
                ondisk::decode_jset(image_.subspan(begin + offset, slot_bytes - offset), magic_);
            if (!jset) break;
            accepted |= accept(*jset);
            offset += std::uint64_t{geometry_.blocks(ondisk::jset_bytes(*jset))} *
                      geometry_.block_bytes();
        }
        return accepted;
    }

    bool accept(const ondisk::Jset& jset) {
        if (jset.seq < last_seq_ || entries_.count(jset.seq) != 0) return false;
        last_seq_ = std::max(last_seq_, jset.last_seq);
        entries_.emplace(jset.seq, jset);
        entries_.erase(entries_.begin(), entries_.lower_bound(last_seq_));
        return true;
    }

    std::span<const std::byte> image_;
    const ondisk::Geometry& geometry_;
    std::uint64_t magic_;
    std::vector<bool> probed_;
    std::map<JournalSeq, ondisk::Jset> entries_;
    JournalSeq last_seq_ = 0;
};

}  // namespace uc::journal::test
