// What the engine adds to the devices below it, with everything cached:
//
//   engine_bench [DIRECTORY [ROUNDS [TURN_MS [PART_OF_NAME]]]]
//
// "memory": cache and backing device in memory, so what is measured is the engine's CPU time per
// request, beside bare copies of the same size within as much memory. At queue depth 1 the device
// completes at once; at 32 each completion goes through the executor. "merged": the data were
// written in order, so that extents are large; "split": every 4 KiB have an extent of their own.
// Good: a read hit of 4 KiB costs at most 4 bare copies.
//
// "file": cache and backing device are files in DIRECTORY (default: that of the program) with
// O_DIRECT, beside a bare io_uring loop on another file there, of the cache's size: as the cache
// does, its writes go through all of it, its reads through the span of the volume. Good: 0.9 of the
// bare rate or more.
//
// Turns of both sides alternate. The ratio is that of the medians; the spread is that of the
// ratios of neighbouring turns.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "cached_world.h"
#include "raw.h"

namespace uc::bench {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kMemorySpan = 512 * kMiB;
constexpr std::uint64_t kFileSpan = 512 * kMiB;
constexpr std::uint64_t kCacheFile = 8 * kFileSpan;
constexpr std::uint32_t kSmall = 4096;
constexpr std::uint32_t kLarge = 128 << 10;

struct Setting {
    std::filesystem::path directory;
    int rounds;
    std::chrono::milliseconds turn;
    std::string part_of_name;

    bool wants(const std::string& name) const {
        return name.find(part_of_name) != std::string::npos;
    }
};

enum class Measure { cpu, rate };

std::string name_of(const Load& load, const std::string& where, const std::string& layout) {
    return fmt::format("{} {}k {} {} qd {}{}", where, load.block_bytes / 1024,
                       load.random ? "random" : "sequential", load.write ? "write" : "read hit",
                       load.depth, layout);
}

void compare(const Setting& setting, const std::string& name, Measure measure,
             const std::function<Figures()>& bare, const std::function<Figures()>& ours) {
    if (!setting.wants(name)) return;
    const auto value = [measure](const Figures& figures) {
        return measure == Measure::cpu ? figures.cpu_ns_per_op : figures.ops_per_s;
    };
    bare();
    ours();
    std::vector<double> references;
    std::vector<double> measured;
    std::vector<double> ratios;
    for (int round = 0; round < setting.rounds; ++round) {
        references.push_back(value(bare()));
        measured.push_back(value(ours()));
        ratios.push_back(measured.back() / references.back());
    }
    const auto [least, most] = std::ranges::minmax(ratios);
    fmt::print("{:<44} {:>9.0f} {:>9.0f} {:>7.2f}   {:.2f} .. {:.2f}\n", name, median(references),
               median(measured), median(measured) / median(references), least, most);
    std::fflush(stdout);
}

void heading(const std::string& unit) {
    fmt::print("\n{:<44} {:>9} {:>9} {:>7}   {}\n", unit, "bare", "ours", "ratio", "spread");
}

void compare_memory(const Setting& setting, CachedWorld& world, MemoryCopy& copy, Load load,
                    const std::string& layout) {
    world.complete_later(load.depth > 1);
    compare(
        setting, name_of(load, "memory", layout), Measure::cpu,
        [&] { return copy.run(load, setting.turn); },
        [&] { return world.run(load, kMemorySpan, setting.turn); });
    world.complete_later(false);
}

void bench_memory(const Setting& setting) {
    heading("CPU ns per request");
    MemoryCopy copy(kMemorySpan);
    const auto world = CachedWorld::in_memory(8 * kMemorySpan, 2 * kMemorySpan);
    world->fill(kMemorySpan, kSmall, true);
    for (const unsigned depth : {1U, 32U}) {
        compare_memory(setting, *world, copy, Load{false, true, kSmall, depth}, " split");
    }
    world->fill(kMemorySpan, kLarge, false);
    for (const unsigned depth : {1U, 32U}) {
        compare_memory(setting, *world, copy, Load{false, true, kSmall, depth}, " merged");
        compare_memory(setting, *world, copy, Load{false, false, kLarge, depth}, " merged");
    }
    for (const unsigned depth : {1U, 32U}) {
        compare_memory(setting, *world, copy, Load{true, true, kSmall, depth}, "");
        compare_memory(setting, *world, copy, Load{true, false, kLarge, depth}, "");
    }
}

void compare_file(const Setting& setting, CachedWorld& world, RawFile& raw, const Load& load) {
    compare(
        setting, name_of(load, "file", ""), Measure::rate,
        [&] { return raw.run(load, load.write ? kCacheFile : kFileSpan, setting.turn); },
        [&] { return world.run(load, kFileSpan, setting.turn); });
}

void bench_files(const Setting& setting) {
    const std::string cache = setting.directory / "engine_bench.cache";
    const std::string backing = setting.directory / "engine_bench.backing";
    const std::string reference = setting.directory / "engine_bench.raw";
    auto raw = RawFile::create(reference, kCacheFile);
    CHECK(raw.has_value());
    CHECK(RawFile::create(cache, kCacheFile).has_value());
    CHECK(RawFile::create(backing, kFileSpan + kMiB).has_value());
    heading("requests per second");
    {
        const auto world = CachedWorld::on_files(cache, backing);
        world->fill(kFileSpan, kLarge, false);
        for (const bool write : {false, true}) {
            for (const unsigned depth : {1U, 32U}) {
                compare_file(setting, *world, **raw, Load{write, true, kSmall, depth});
                compare_file(setting, *world, **raw, Load{write, false, kLarge, depth});
            }
        }
    }
    for (const std::string& path : {cache, backing, reference}) std::filesystem::remove(path);
}

}  // namespace
}  // namespace uc::bench

int main(int argc, char** argv) {
    const auto number = [&](int index, int otherwise) {
        return argc > index ? std::atoi(argv[index]) : otherwise;
    };
    const uc::bench::Setting setting{
        argc > 1 ? std::filesystem::path(argv[1]) : std::filesystem::path(argv[0]).parent_path(),
        number(2, 7), std::chrono::milliseconds(number(3, 200)), argc > 4 ? argv[4] : ""};
    if (!setting.part_of_name.starts_with("file")) uc::bench::bench_memory(setting);
    if (!setting.part_of_name.starts_with("memory")) uc::bench::bench_files(setting);
    return 0;
}
