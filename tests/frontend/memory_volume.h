// A volume in plain memory, so that front ends are tested and measured without the engine. Counts
// what it was asked for, can answer late and can fail.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/volume.h"
#include "io/clock.h"

namespace uc::frontend {

class MemoryVolume final : public core::Volume {
public:
    struct Counts {
        unsigned reads = 0, writes = 0, fua_writes = 0, flushes = 0, discards = 0, zeroes = 0;
    };

    MemoryVolume(std::string name, std::uint64_t bytes)
        : name_(std::move(name)), bytes_(bytes / kSectorBytes * kSectorBytes) {}

    // Requests take this long.
    void delay(io::Clock& clock, Duration time) {
        clock_ = &clock;
        delay_ = time;
    }
    std::optional<Error> failure;  // of every request from now on
    bool writable = true;
    Counts counts;
    std::vector<std::byte>& bytes() { return bytes_; }

    Task<Result<void>> read(std::uint64_t sector, std::span<std::byte> out) override {
        ++counts.reads;
        CO_OK(co_await ready(sector, out.size()));
        std::memcpy(out.data(), at(sector), out.size());
        co_return Result<void>();
    }
    Task<Result<void>> write(std::uint64_t sector, std::span<const std::byte> in,
                             core::WriteFlags flags) override {
        ++counts.writes;
        if (flags.fua) ++counts.fua_writes;
        CO_OK(co_await ready(sector, in.size()));
        std::memcpy(at(sector), in.data(), in.size());
        co_return Result<void>();
    }
    Task<Result<void>> flush() override {
        ++counts.flushes;
        co_return co_await ready(0, 0);
    }
    Task<Result<void>> discard(std::uint64_t sector, std::uint64_t sectors) override {
        ++counts.discards;
        CO_OK(co_await ready(sector, sectors * kSectorBytes));
        std::memset(at(sector), 0xdd, sectors * kSectorBytes);  // undefined: the nastiest choice
        co_return Result<void>();
    }
    Task<Result<void>> write_zeroes(std::uint64_t sector, std::uint64_t sectors,
                                    core::WriteFlags flags) override {
        ++counts.zeroes;
        if (flags.fua) ++counts.fua_writes;
        CO_OK(co_await ready(sector, sectors * kSectorBytes));
        std::memset(at(sector), 0, sectors * kSectorBytes);
        co_return Result<void>();
    }

    std::uint64_t size_sectors() const override { return bytes_.size() / kSectorBytes; }
    std::uint32_t block_sectors() const override { return 8; }
    bool read_only() const override { return !writable; }
    const std::string& name() const override { return name_; }

private:
    std::byte* at(std::uint64_t sector) { return bytes_.data() + sector * kSectorBytes; }

    Task<Result<void>> ready(std::uint64_t sector, std::uint64_t bytes) {
        if (clock_ != nullptr) {
            co_await clock_->sleep(delay_);
        }
        if (failure) co_return tl::unexpected(*failure);
        if (bytes % kSectorBytes != 0) co_return fail(Errc::invalid, "unaligned");
        if (sector * kSectorBytes + bytes > bytes_.size()) co_return fail(Errc::invalid, "beyond");
        co_return Result<void>();
    }

    std::string name_;
    std::vector<std::byte> bytes_;
    io::Clock* clock_ = nullptr;
    Duration delay_{0};
};

}  // namespace uc::frontend
