// The journal ring as it lies on the disk, read in two ways: every slot, and only the slots that
// the kernel's search reads (format section 4.7). A ring that we wrote must give the same by both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ondisk/geometry.h"
#include "ondisk/jset.h"

namespace uc::sim {

using SlotReader = std::function<bool(std::uint64_t sector, std::span<std::byte> out)>;
using Entries = std::map<JournalSeq, const ondisk::Jset*>;

class JournalImage {
public:
    // Reads every slot. Entries that fail a check end their slot.
    JournalImage(const ondisk::Geometry& geometry, std::uint64_t set_magic, const SlotReader& read);

    // What remains after every slot was read: sorted, older than no last_seq.
    Entries scan_all() const;
    Entries kernel_search() const;
    const std::vector<std::vector<ondisk::Jset>>& slots() const { return slots_; }

private:
    std::vector<std::vector<ondisk::Jset>> slots_;
};

// The entries that the newest one needs, ascending; what is missing goes to `problems`.
std::vector<const ondisk::Jset*> needed_entries(const Entries& entries, bool discard,
                                                std::vector<std::string>& problems);

}  // namespace uc::sim
