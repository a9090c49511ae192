// Integer stored big-endian at any alignment; converts on every access. The NBD protocol's
// structures are built from these, so they have alignment 1 and no padding.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>

namespace uc::frontend {

template <std::unsigned_integral T>
class Be {
public:
    constexpr Be() = default;
    constexpr Be(T value) {  // NOLINT: meant to be implicit
        for (std::size_t i = sizeof(T); i-- > 0;) {
            byte_[i] = static_cast<unsigned char>(value);
            if constexpr (sizeof(T) > 1) value = static_cast<T>(value >> 8);
        }
    }
    constexpr operator T() const {
        T value = 0;
        for (const unsigned char byte : byte_) value = static_cast<T>((value << 8) | byte);
        return value;
    }

private:
    unsigned char byte_[sizeof(T)] = {};
};

}  // namespace uc::frontend
