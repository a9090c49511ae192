// What the index holds of each device, by index in the uuid table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/units.h"
#include "ondisk/key.h"

namespace uc::core {

struct Holding {
    std::uint64_t sectors = 0;
    std::uint64_t dirty = 0;  // of these
    std::uint64_t end = 0;    // the last sector of the device that is cached, exclusive
};

class Holdings {
public:
    // Keys come in the order of the index: those of a device one after the other.
    void add(const ondisk::Key& key) {
        if (last_ == nullptr || last_inode_ != key.inode()) {
            last_inode_ = key.inode();
            last_ = &by_inode_[last_inode_];
        }
        last_->sectors += key.size();
        if (key.dirty()) last_->dirty += key.size();
        last_->end = std::max(last_->end, key.end());
    }
    const std::map<std::uint64_t, Holding>& by_inode() const { return by_inode_; }

private:
    std::map<std::uint64_t, Holding> by_inode_;
    Holding* last_ = nullptr;
    std::uint64_t last_inode_ = 0;
};

}  // namespace uc::core
