// Integer stored little-endian at any alignment; converts on every access. On-disk structures are
// built from these, so they have alignment 1 and no padding.
#pragma once

#include <bit>
#include <concepts>

namespace uc {

template <std::unsigned_integral T>
class Le {
public:
    constexpr Le() = default;
    constexpr Le(T value) : raw_(std::bit_cast<Raw>(value)) {}  // NOLINT: meant to be implicit
    constexpr operator T() const { return std::bit_cast<T>(raw_); }

private:
    static_assert(std::endian::native == std::endian::little);
    struct Raw {
        unsigned char byte[sizeof(T)];
    } raw_{};
};

}  // namespace uc
