// What the machine can do, and what the device layer adds to it:
//
//   raw_bench FILE [MIB [ROUNDS [TURN_MS [PART_OF_NAME]]]]
//
// Bare 4 KiB memory copies against the memory device, and a bare io_uring loop against FileDevice
// with the event loop and one coroutine per request. FILE is created, filled and used with
// O_DIRECT. Good: 0.95 of the bare rate or more on a device; on memory, tens of nanoseconds on top
// of the copy.
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "base/check.h"
#include "device_load.h"
#include "io/file_device.h"
#include "io/mem_device.h"
#include "raw.h"

namespace uc::bench {
namespace {

constexpr std::uint64_t kMemoryBytes = std::uint64_t{1} << 30;

struct Setting {
    std::string path;
    std::uint64_t file_bytes;
    int rounds;
    std::chrono::milliseconds turn;
    std::string part_of_name;

    bool wants(const std::string& name) const {
        return name.find(part_of_name) != std::string::npos;
    }
};

void print(const std::string& name, const std::vector<Figures>& bare,
           const std::vector<Figures>& ours) {
    const Figures reference = median(bare);
    const Figures measured = median(ours);
    fmt::print("{:<28} {:>10.0f} {:>10.0f} {:>7.3f} {:>9.0f} {:>9.0f} {:>+8.0f}\n", name,
               reference.ops_per_s, measured.ops_per_s, measured.ops_per_s / reference.ops_per_s,
               reference.cpu_ns_per_op, measured.cpu_ns_per_op,
               measured.cpu_ns_per_op - reference.cpu_ns_per_op);
}

void fill(io::BlockDevice& device) {
    io::Buffer piece = io::Buffer::zeroed(1 << 20);
    const std::uint64_t step = piece.size() / kSectorBytes;
    io::IoRequest request;
    request.kind = io::IoKind::write;
    request.sectors = step;
    request.data = piece.data();
    for (; request.sector < device.size_sectors(); request.sector += step) {
        CHECK(device.submit(&request) && request.ok);
    }
}

void compare_memory(const Setting& setting) {
    const std::string name = "memory 4k random read";
    if (!setting.wants(name)) return;
    MemoryCopy copy(kMemoryBytes);
    auto device = io::MemDevice::create(kMemoryBytes / kSectorBytes);
    CHECK(device.has_value());
    fill(**device);
    async::Executor executor;
    std::vector<Figures> bare;
    std::vector<Figures> ours;
    for (int round = 0; round < setting.rounds; ++round) {
        bare.push_back(copy.run(Load{}, setting.turn));
        ours.push_back(run_memory_load(executor, **device, Load{}, setting.turn,
                                       static_cast<std::uint64_t>(round)));
    }
    print(name, bare, ours);
}

void compare_file(const Setting& setting, RawFile& raw, const Load& load) {
    const std::string name = fmt::format("file {}k {} {} qd {}", load.block_bytes / 1024,
                                         load.random ? "random" : "sequential",
                                         load.write ? "write" : "read", load.depth);
    if (!setting.wants(name)) return;
    async::Executor executor;
    auto reactor = io::UringReactor::create(executor);
    CHECK(reactor.has_value());
    auto device = io::FileDevice::open(**reactor, setting.path);
    CHECK(device.has_value());
    std::vector<Figures> bare;
    std::vector<Figures> ours;
    for (int round = 0; round < setting.rounds; ++round) {
        bare.push_back(raw.run(load, raw.bytes(), setting.turn));
        ours.push_back(run_load(executor, **reactor, **device, load, setting.turn,
                                static_cast<std::uint64_t>(round)));
    }
    print(name, bare, ours);
}

int run(const Setting& setting) {
    auto raw = RawFile::create(setting.path, setting.file_bytes);
    if (!raw) {
        fmt::print(stderr, "{}: {}\n", setting.path, raw.error().what);
        return 1;
    }
    fmt::print("{:<28} {:>10} {:>10} {:>7} {:>9} {:>9} {:>8}\n", "", "bare op/s", "ours op/s",
               "ratio", "bare ns", "ours ns", "added");
    compare_memory(setting);
    for (const unsigned depth : {1U, 32U}) {
        for (const bool write : {false, true}) {
            compare_file(setting, **raw, Load{write, true, 4096, depth});
            compare_file(setting, **raw, Load{write, false, 128 << 10, depth});
        }
    }
    return 0;
}

}  // namespace
}  // namespace uc::bench

int main(int argc, char** argv) {
    if (argc < 2) {
        fmt::print(stderr, "usage: raw_bench FILE [MIB [ROUNDS [TURN_MS [PART_OF_NAME]]]]\n");
        return 2;
    }
    const auto number = [&](int index, int otherwise) {
        return argc > index ? std::atoi(argv[index]) : otherwise;
    };
    return uc::bench::run({argv[1], static_cast<std::uint64_t>(number(2, 1024)) << 20, number(3, 9),
                           std::chrono::milliseconds(number(4, 200)), argc > 5 ? argv[5] : ""});
}
