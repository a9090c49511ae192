// Sparse contents of a simulated disk: 4 KiB pages, shared between states until one of them writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/units.h"

namespace uc::sim {

class Contents {
public:
    explicit Contents(std::uint64_t sectors) : pages_((sectors + kPerPage - 1) / kPerPage) {}

    void read(std::uint64_t sector, std::span<std::byte> out) const;
    void write(std::uint64_t sector, std::span<const std::byte> in);
    void zero(std::uint64_t sector, std::uint64_t sectors);

private:
    static constexpr std::uint64_t kPerPage = 8;
    using Page = std::array<std::byte, kPerPage * kSectorBytes>;
    Page& own(std::uint64_t index);

    std::vector<std::shared_ptr<Page>> pages_;  // null: zeroes
};

}  // namespace uc::sim
