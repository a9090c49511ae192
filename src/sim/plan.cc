// The draws favour what is hard on a cache: buckets so small that a few megabytes of load go round
// the whole device, so that buckets are reused all the time; a working set a little larger or
// smaller than the cache; write-back that never pauses or hardly ever runs.

#include "sim/plan.h"

#include <algorithm>
#include <array>

namespace uc::sim {

namespace {

template <class T, std::size_t N>
T pick(Rng& rng, const std::array<T, N>& from) {
    return from[rng.below(N)];
}

// A choice with weights that sum up to 100.
template <class T, std::size_t N>
T weigh(Rng& rng, const std::array<std::pair<T, unsigned>, N>& from) {
    std::uint64_t at = rng.below(100);
    for (const auto& [value, weight] : from) {
        if (at < weight) return value;
        at -= weight;
    }
    return from.back().first;
}

constexpr std::array<std::pair<std::uint32_t, unsigned>, 8> kBucketSectors = {
    {{8, 24}, {16, 36}, {32, 20}, {64, 10}, {128, 6}, {256, 2}, {1024, 1}, {4096, 1}}};
constexpr std::uint64_t kWorkingSetSectors = 16384;

core::SetOptions draw_set_options(Rng& rng) {
    core::SetOptions options;
    options.journal_delay_ms = pick(rng, std::array<std::uint32_t, 4>{1, 10, 100, 1000});
    options.cutoff_writeback = pick(rng, std::array<std::uint32_t, 4>{40, 40, 60, 99});
    options.cutoff_writeback_sync =
        std::max(options.cutoff_writeback, pick(rng, std::array<std::uint32_t, 3>{70, 70, 85}));
    options.cache_grace_s = pick(rng, std::array<std::uint32_t, 3>{2, 10, 30});
    if (rng.percent(70)) options.congested_read_threshold_us = 0;
    if (rng.percent(70)) options.congested_write_threshold_us = 0;
    if (rng.percent(30)) {  // hardly a leaf stays in memory
        options.node_cache_bytes = pick(rng, std::array<std::uint64_t, 3>{1, 8000, 64000});
    }
    return options;
}

core::VolumeOptions draw_volume_options(Rng& rng) {
    core::VolumeOptions options;
    options.sequential_cutoff_bytes =
        pick(rng, std::array<std::uint64_t, 4>{0, 64 << 10, 256 << 10, 4 << 20});
    options.writeback_percent = pick(rng, std::array<std::uint32_t, 4>{0, 0, 10, 40});
    options.writeback_delay_s = pick(rng, std::array<std::uint32_t, 4>{0, 1, 5, 30});
    options.writeback_running = rng.percent(85);
    return options;
}

VolumePlan draw_volume(Rng& rng, std::uint64_t sectors, std::uint32_t block, bool flash_only) {
    VolumePlan volume;
    volume.flash_only = flash_only;
    volume.sectors = std::max<std::uint64_t>(sectors / 8 * 8, 512);
    volume.options = draw_volume_options(rng);
    if (flash_only) return volume;
    const std::uint64_t step = std::max<std::uint32_t>(block, 1);
    volume.data_offset = rng.percent(50) ? 16 : 16 + rng.below(300) * step;
    volume.mode = weigh(rng, std::array<std::pair<ondisk::CacheMode, unsigned>, 4>{
                                 {{ondisk::CacheMode::writeback, 60},
                                  {ondisk::CacheMode::writethrough, 28},
                                  {ondisk::CacheMode::writearound, 8},
                                  {ondisk::CacheMode::none, 4}}});
    volume.discard = rng.percent(50);
    if (rng.percent(25)) volume.logical_block = block;
    return volume;
}

// Nodes of 4 KiB hold 168 keys, so three levels take some ten thousand.
Plan make_deep(Rng& rng, Plan plan) {
    plan.deep = true;
    plan.bucket_sectors = 8;
    plan.block_sectors = plan.logical_block = 1;
    plan.atomic_sectors = rng.percent(50) ? 1 : 8;
    plan.nbuckets = 7000 + rng.below(2000);
    plan.cycles = 3;
    plan.volumes.push_back(draw_volume(rng, 32768, 1, false));
    VolumePlan& volume = plan.volumes.back();
    volume.mode = ondisk::CacheMode::writeback;
    volume.options.sequential_cutoff_bytes = 0;
    volume.options.writeback_delay_s = 30;
    volume.options.writeback_percent = 40;
    return plan;
}

}  // namespace

Plan draw_plan(Rng& rng) {
    Plan plan;
    plan.bucket_sectors = weigh(rng, kBucketSectors);
    plan.block_sectors = rng.percent(40) ? 8 : 1;
    if (plan.bucket_sectors < 4 * plan.block_sectors) plan.block_sectors = 1;  // refused otherwise
    plan.nbuckets = 577 + (rng.percent(80) ? rng.below(200) : rng.below(2500));
    if (plan.bucket_sectors > 256) plan.nbuckets = 577;
    plan.replacement = static_cast<ondisk::Replacement>(rng.below(3));
    plan.discard = rng.percent(30);
    plan.atomic_sectors = pick(rng, std::array<std::uint32_t, 3>{1, plan.block_sectors, 8});
    if (rng.percent(50)) plan.logical_block = plan.block_sectors;
    plan.options = draw_set_options(rng);
    plan.cycles = 3 + static_cast<unsigned>(rng.below(4));
    plan.steady = rng.percent(45);
    plan.faults = rng.percent(20);
    plan.outages = plan.steady && rng.percent(40);
    plan.damage = rng.percent(20);
    plan.aged = rng.percent(35);
    if (rng.percent(2)) return make_deep(rng, plan);

    const std::uint64_t cache = plan.nbuckets * plan.bucket_sectors;
    const std::uint64_t count = rng.percent(55) ? 1 : 2 + rng.below(2);
    const std::uint64_t working = std::min(kWorkingSetSectors, cache * (30 + rng.below(140)) / 100);
    for (std::uint64_t i = 0; i < count; ++i) {
        plan.volumes.push_back(draw_volume(rng, working / count, plan.block_sectors, false));
    }
    if (rng.percent(20)) {
        // Its data is dirty for ever, so it must leave room for the others.
        const std::uint64_t share = std::min<std::uint64_t>(cache / 6, 4096);
        plan.volumes.push_back(draw_volume(rng, share, plan.block_sectors, true));
        // If the others' dirty data were to stay, it could rightly be told that there is no space.
        for (VolumePlan& volume : plan.volumes) volume.options.writeback_running = true;
    }
    return plan;
}

namespace {

// Some phases do one thing above all.
void specialise(Rng& rng, Phase& phase) {
    enum class Kind : std::uint8_t { mixed, flushes, forced, trims, crowd, idle };
    const Kind kind = weigh(rng, std::array<std::pair<Kind, unsigned>, 6>{{{Kind::mixed, 60},
                                                                           {Kind::flushes, 8},
                                                                           {Kind::forced, 8},
                                                                           {Kind::trims, 8},
                                                                           {Kind::crowd, 12},
                                                                           {Kind::idle, 4}}});
    switch (kind) {
        case Kind::mixed:
            break;
        case Kind::flushes:
            phase.flushes = 35;
            phase.reads = 10;
            break;
        case Kind::forced:
            phase.fua_percent = 100;
            break;
        case Kind::trims:
            phase.discards = 20;
            phase.zeroes = 15;
            phase.reads = 30;
            break;
        case Kind::crowd:  // all over each other
            phase.pattern = Phase::Pattern::hot;
            phase.clients = 32;
            phase.max_sectors = 128;
            break;
        case Kind::idle:
            phase.pauses = 25;
            phase.ops = std::min(phase.ops, 80u);
            break;
    }
}

}  // namespace

Phase draw_phase(Rng& rng) {
    Phase phase;
    phase.pattern = weigh(rng, std::array<std::pair<Phase::Pattern, unsigned>, 3>{
                                   {{Phase::Pattern::random, 45},
                                    {Phase::Pattern::hot, 35},
                                    {Phase::Pattern::sequential, 20}}});
    phase.ops = 40 + static_cast<unsigned>(rng.below(rng.percent(30) ? 1200 : 300));
    phase.clients = pick(rng, std::array<unsigned, 5>{1, 2, 4, 8, 32});
    phase.max_sectors = weigh(rng, std::array<std::pair<std::uint32_t, unsigned>, 4>{
                                       {{8, 30}, {32, 30}, {128, 35}, {2048, 5}}});
    if (phase.max_sectors == 2048) phase.ops = 20;
    phase.unaligned_percent = pick(rng, std::array<unsigned, 4>{0, 0, 20, 100});
    phase.reads = pick(rng, std::array<unsigned, 4>{10, 30, 50, 80});
    phase.flushes = pick(rng, std::array<unsigned, 3>{1, 4, 10});
    phase.discards = pick(rng, std::array<unsigned, 4>{0, 0, 2, 6});
    phase.zeroes = pick(rng, std::array<unsigned, 3>{0, 0, 3});
    phase.pauses = pick(rng, std::array<unsigned, 3>{0, 1, 1});
    phase.fua_percent = pick(rng, std::array<unsigned, 3>{0, 5, 50});
    specialise(rng, phase);
    return phase;
}

Phase scatter_phase() {
    Phase phase;
    phase.ops = 9000;
    phase.clients = 32;
    phase.max_sectors = 3;
    phase.unaligned_percent = 0;
    phase.reads = 1;
    phase.flushes = phase.discards = phase.zeroes = phase.pauses = 0;
    phase.fua_percent = 0;
    return phase;
}

std::string Plan::describe() const {
    std::string text =
        "bucket " + std::to_string(bucket_sectors) + " block " + std::to_string(block_sectors) +
        " buckets " + std::to_string(nbuckets) + " " + ondisk::name_of(replacement) +
        (discard ? " discard" : "") + (steady ? " steady" : "") + (faults ? " faults" : "") +
        (outages ? " outages" : "") + (damage ? " damage" : "") + (aged ? " aged" : "") +
        (deep ? " deep" : "") + " cycles " + std::to_string(cycles);
    for (const VolumePlan& volume : volumes) {
        text += volume.flash_only ? "; flash" : std::string("; ") + ondisk::name_of(volume.mode);
        text += " " + std::to_string(volume.sectors) + "+" + std::to_string(volume.data_offset);
    }
    return text;
}

}  // namespace uc::sim
