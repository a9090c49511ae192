// Keys and pointers (format section 2): the value that the index, the journal and the node sets
// share. In memory a key always has three words; on disk it has 2 + PTRS.
//
// Only keys with at most one pointer exist in practice (2.1); decode() refuses more.
#pragma once

#include <compare>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/units.h"

namespace uc::ondisk {

// Place in the key space: INODE, then OFFSET, which is the exclusive end of the extent.
struct Pos {
    std::uint64_t inode = 0;
    std::uint64_t offset = 0;
    constexpr auto operator<=>(const Pos&) const = default;
};
inline constexpr Pos kPosZero{0, 0};
inline constexpr Pos kPosMax{0xFFFFF, 0x7FFFFFFFFFFFFFFF};

// A pointer word.
class Ptr {
public:
    constexpr Ptr() = default;
    constexpr explicit Ptr(std::uint64_t raw) : raw_(raw) {}
    static constexpr Ptr make(std::uint64_t sector, Gen gen, unsigned dev = 0) {
        return Ptr(gen.raw() | (sector << 8) | (std::uint64_t{dev} << 51));
    }
    constexpr Gen gen() const { return Gen(static_cast<std::uint8_t>(raw_)); }
    constexpr std::uint64_t sector() const { return (raw_ >> 8) & ((std::uint64_t{1} << 43) - 1); }
    constexpr unsigned dev() const { return (raw_ >> 51) & 0xFFF; }
    // Points at a member of the set; false for "check" pointers and the like (2.1).
    constexpr bool available() const { return dev() < 8; }
    constexpr std::uint64_t raw() const { return raw_; }
    // The sum stays inside the sector field: the random sector of a "check" pointer (2.5) must not
    // carry into DEV and become one that is available.
    constexpr Ptr advanced(std::uint64_t sectors) const {
        return Ptr((raw_ & ~kSectorMask) | ((raw_ + (sectors << 8)) & kSectorMask));
    }
    constexpr bool operator==(const Ptr&) const = default;

private:
    static constexpr std::uint64_t kSectorMask = ((std::uint64_t{1} << 43) - 1) << 8;

    std::uint64_t raw_ = 0;
};

class Key {
public:
    static constexpr std::uint64_t kMarker = std::uint64_t{1} << 63;
    static constexpr std::uint32_t kMaxSize = 65535;

    constexpr Key() = default;
    // A data extent [end - size, end).
    static constexpr Key extent(std::uint64_t inode, std::uint64_t end, std::uint32_t size, Ptr ptr,
                                bool dirty) {
        Key key;
        key.high_ = kMarker | (std::uint64_t{1} << 60) | (std::uint64_t{dirty} << 36) |
                    (std::uint64_t{size} << 20) | inode;
        key.low_ = end;
        key.ptr_ = ptr;
        return key;
    }
    // "Nothing cached here".
    static constexpr Key invalidation(std::uint64_t inode, std::uint64_t end, std::uint32_t size) {
        Key key;
        key.high_ = kMarker | (std::uint64_t{size} << 20) | inode;
        key.low_ = end;
        return key;
    }
    // A pointer to a node or the uuid table at `pos`, `size` sectors long.
    static constexpr Key pointer(Pos pos, std::uint32_t size, Ptr ptr) {
        return extent(pos.inode, pos.offset, size, ptr, false);
    }
    static constexpr Key from_words(std::uint64_t high, std::uint64_t low, std::uint64_t ptr) {
        Key key;
        key.high_ = high;
        key.low_ = low;
        key.ptr_ = Ptr(ptr);
        return key;
    }

    constexpr std::uint64_t inode() const { return high_ & 0xFFFFF; }
    constexpr std::uint32_t size() const { return (high_ >> 20) & 0xFFFF; }
    constexpr bool dirty() const { return (high_ >> 36) & 1; }
    constexpr unsigned csum_kind() const { return (high_ >> 56) & 3; }
    constexpr unsigned ptrs() const { return (high_ >> 60) & 7; }
    constexpr bool has_ptr() const { return ptrs() != 0; }
    constexpr Ptr ptr() const { return ptr_; }
    constexpr std::uint64_t end() const { return low_; }
    // Wraps if SIZE > OFFSET, which validation refuses.
    constexpr std::uint64_t start() const { return low_ - size(); }
    constexpr Pos pos() const { return {inode(), low_}; }
    constexpr Pos start_pos() const { return {inode(), start()}; }

    constexpr void set_size(std::uint32_t size) {
        high_ = (high_ & ~(std::uint64_t{0xFFFF} << 20)) | (std::uint64_t{size} << 20);
    }
    constexpr void set_end(std::uint64_t end) { low_ = end; }
    constexpr void set_pos(Pos pos) {
        high_ = (high_ & ~std::uint64_t{0xFFFFF}) | pos.inode;
        low_ = pos.offset;
    }
    constexpr void set_dirty(bool dirty) {
        high_ = (high_ & ~(std::uint64_t{1} << 36)) | (std::uint64_t{dirty} << 36);
    }
    constexpr void set_ptr(Ptr ptr) { ptr_ = ptr; }

    // Keep [from, end): section 2.8. `from` lies inside the extent.
    constexpr void cut_front(std::uint64_t from) {
        const std::uint64_t removed = from - start();
        set_size(static_cast<std::uint32_t>(end() - from));
        if (has_ptr()) ptr_ = ptr_.advanced(removed);
    }
    // Keep [start, to).
    constexpr void cut_back(std::uint64_t to) {
        const std::uint64_t begin = start();
        low_ = to;
        set_size(static_cast<std::uint32_t>(to - begin));
    }
    // The part [from, to) of this extent.
    constexpr Key part(std::uint64_t from, std::uint64_t to) const {
        Key key = *this;
        if (from > key.start()) key.cut_front(from);
        if (to < key.end()) key.cut_back(to);
        return key;
    }

    // Words on disk: 2 + PTRS.
    constexpr unsigned words() const { return 2 + ptrs(); }
    constexpr std::uint64_t high() const { return high_; }
    constexpr std::uint64_t low() const { return low_; }
    constexpr bool operator==(const Key&) const = default;

private:
    std::uint64_t high_ = kMarker;
    std::uint64_t low_ = 0;
    Ptr ptr_{};
};

inline constexpr std::size_t kKeyMaxBytes = 24;

// Reads the key at the start of `bytes` (8-byte words, little-endian) and removes it from `bytes`.
// Errc::corrupt if it runs over the end, Errc::unsupported if it has more than one pointer.
Result<Key> decode_key(std::span<const std::byte>& bytes);
// Appends key.words() words at `out`; returns the bytes written (16 or 24).
std::size_t encode_key(const Key& key, std::byte* out);

}  // namespace uc::ondisk
