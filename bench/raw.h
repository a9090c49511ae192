// Reference figures of the machine, to be taken in the same run as what is compared with them, in
// short turns one after the other: the machine may be noisy, so only ratios of medians mean
// anything.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/rng.h"

namespace uc::bench {

struct Figures {
    double ops_per_s = 0;
    double cpu_ns_per_op = 0;  // of the whole process, kernel time included
};

struct Load {
    bool write = false;
    bool random = true;
    std::uint32_t block_bytes = 4096;
    unsigned depth = 1;
};

// Where the requests of a load go: whole blocks, anywhere or one after the other.
class Positions {
public:
    Positions(const Load& load, std::uint64_t bytes, std::uint64_t seed)
        : rng_(seed),
          blocks_(bytes / load.block_bytes),
          sequential_(rng_.below(blocks_)),  // or each turn would see the same first part only
          load_(load) {}
    std::uint64_t next_byte() {
        if (load_.random) return rng_.below(blocks_) * load_.block_bytes;
        if (sequential_ == blocks_) sequential_ = 0;
        return sequential_++ * load_.block_bytes;
    }

private:
    Rng rng_;
    std::uint64_t blocks_;
    std::uint64_t sequential_;
    Load load_;
};

// Measures one turn: construct, work, then figures().
class Turn {
public:
    explicit Turn(std::chrono::nanoseconds length);
    bool over() const;
    Figures figures(std::uint64_t ops) const;

private:
    std::int64_t start_ns_;
    std::int64_t start_cpu_ns_;
    std::int64_t end_ns_;
};

// Copies between a region of memory and one place outside of it, at the positions of a load: the
// least that a read or write which hits memory can cost.
class MemoryCopy {
public:
    explicit MemoryCopy(std::size_t bytes);  // touches all of it
    ~MemoryCopy();
    MemoryCopy(const MemoryCopy&) = delete;
    MemoryCopy& operator=(const MemoryCopy&) = delete;
    Figures run(const Load& load, std::chrono::nanoseconds turn);

private:
    std::byte* memory_;
    std::size_t bytes_;
    Rng rng_{1};
};

// The plainest possible io_uring loop on an O_DIRECT file: registered file, one system call per
// round.
class RawFile {
public:
    // Makes the file this long and full of data that does not compress; keeps one that has the
    // size.
    static Result<std::unique_ptr<RawFile>> create(const std::string& path, std::uint64_t bytes);
    // An existing file or block device.
    static Result<std::unique_ptr<RawFile>> open(const std::string& path);
    ~RawFile();
    RawFile(const RawFile&) = delete;
    RawFile& operator=(const RawFile&) = delete;

    // Within the first `bytes` of the file.
    Figures run(const Load& load, std::uint64_t bytes, std::chrono::nanoseconds turn);
    std::uint64_t bytes() const { return bytes_; }

private:
    RawFile(int fd, std::uint64_t bytes) : fd_(fd), bytes_(bytes) {}
    int fd_;
    std::uint64_t bytes_;
    Rng rng_{2};
};

double median(std::vector<double> values);

// The medians of several turns.
Figures median(const std::vector<Figures>& turns);

}  // namespace uc::bench
