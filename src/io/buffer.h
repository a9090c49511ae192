// An owned, 4096-byte aligned block of memory for device I/O, so that O_DIRECT never copies.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>

namespace uc::io {

class Buffer {
public:
    static constexpr std::size_t kAlign = 4096;

    Buffer() = default;
    // Uninitialised.
    explicit Buffer(std::size_t bytes)
        : data_(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kAlign)))),
          size_(bytes) {}
    static Buffer zeroed(std::size_t bytes) {
        Buffer buffer(bytes);
        std::memset(buffer.data(), 0, bytes);
        return buffer;
    }

    std::byte* data() { return data_.get(); }
    const std::byte* data() const { return data_.get(); }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    std::span<std::byte> span() { return {data(), size_}; }
    std::span<const std::byte> span() const { return {data(), size_}; }

private:
    struct Free {
        void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(kAlign)); }
    };
    std::unique_ptr<std::byte, Free> data_;
    std::size_t size_ = 0;
};

}  // namespace uc::io
