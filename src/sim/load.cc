#include "sim/load.h"

#include <algorithm>
#include <cstring>

#include "io/buffer.h"

namespace uc::sim {

namespace {

// What a buffer holds before a read, so that a read that leaves a hole is noticed.
io::Buffer dirty_buffer(std::uint64_t sectors) {
    io::Buffer buffer(sectors * kSectorBytes);
    std::memset(buffer.data(), 0xA5, buffer.size());
    return buffer;
}

}  // namespace

std::vector<Task<void>> Load::clients() {
    std::vector<Task<void>> tasks;
    for (unsigned i = 0; i < phase_.clients; ++i) tasks.push_back(client());
    return tasks;
}

Task<void> Load::client() {
    while (begun_ < phase_.ops && !machine_.failed()) {
        ++begun_;
        auto& targets = machine_.targets();
        Target& target = targets[machine_.rng().below(targets.size())];
        const Op op = draw(target);
        co_await run(target, op);
    }
}

Load::Kind Load::draw_kind() {
    std::uint64_t at = machine_.rng().below(100);
    const std::pair<Kind, unsigned> shares[] = {
        {Kind::read, phase_.reads},       {Kind::flush, phase_.flushes},
        {Kind::discard, phase_.discards}, {Kind::zeroes, phase_.zeroes},
        {Kind::pause, phase_.pauses},
    };
    for (const auto& [kind, share] : shares) {
        if (at < share) return kind;
        at -= share;
    }
    return Kind::write;
}

Load::Op Load::draw(const Target& target) {
    Op op;
    op.kind = draw_kind();
    draw_range(target, op);
    op.fua = machine_.rng().percent(phase_.fua_percent);
    op.priority = machine_.rng().percent(10);
    return op;
}

void Load::draw_range(const Target& target, Op& op) {
    Rng& rng = machine_.rng();
    const std::uint64_t size = target.plan.sectors;
    std::uint64_t unit = machine_.plan().block_sectors;
    if (rng.percent(phase_.unaligned_percent)) unit = target.plan.logical_block;
    const std::uint64_t longest = std::min<std::uint64_t>(phase_.max_sectors, size);
    const std::uint64_t shift = rng.below(4);  // short ones are frequent
    op.sectors = std::max<std::uint64_t>(rng.below(longest >> shift) / unit * unit, unit);
    const std::uint64_t room = size - op.sectors + 1;
    switch (phase_.pattern) {
        case Phase::Pattern::random:
            op.sector = rng.below(room);
            break;
        case Phase::Pattern::hot:
            op.sector = rng.below(std::min<std::uint64_t>(room, 512));
            break;
        case Phase::Pattern::sequential:
            op.sector = cursor_ < room ? cursor_ : 0;
            cursor_ = op.sector + op.sectors;
            break;
    }
    op.sector = op.sector / unit * unit;
}

Task<void> Load::run(Target& target, Op op) {
    switch (op.kind) {
        case Kind::read:
            co_await read(target, op);
            break;
        case Kind::write:
            co_await write(target, op);
            break;
        case Kind::zeroes:
            co_await zeroes(target, op);
            break;
        case Kind::discard:
            co_await discard(target, op);
            break;
        case Kind::flush:
            co_await flush(target);
            break;
        case Kind::pause:
            co_await pause();
            break;
    }
}

void Load::judge(const Target& target, const char* what, const Op& op, const Result<void>& result) {
    machine_.world().note(result.has_value() ? op.sector : ~op.sector);
    if (result || machine_.tolerant) return;
    machine_.fail(target.label + ": " + what + " of " + std::to_string(op.sectors) +
                  " sectors at " + std::to_string(op.sector) +
                  " failed: " + name_of(result.error().code) + " (" + result.error().what + ")");
}

Task<void> Load::read(Target& target, Op op) {
    io::Buffer buffer = dirty_buffer(op.sectors);
    const Stamp begun = target.model.begin_read();
    Result<void> result = co_await target.volume->read(op.sector, buffer.span());
    judge(target, "read", op, result);
    if (!result) {
        target.model.abandon_read(begun);
        co_return;
    }
    const auto problem = target.model.end_read(begun, op.sector, buffer.span());
    if (problem) machine_.fail(target.label + ": read: " + *problem);
}

Task<void> Load::write(Target& target, Op op) {
    io::Buffer buffer(op.sectors * kSectorBytes);
    const VolumeModel::Write write = target.model.begin_write(op.sector, buffer.span(), op.fua);
    core::WriteFlags flags;
    flags.fua = op.fua;
    flags.priority = op.priority;
    Result<void> result = co_await target.volume->write(op.sector, buffer.span(), flags);
    target.model.end_write(write, result.has_value());
    judge(target, "write", op, result);
}

Task<void> Load::zeroes(Target& target, Op op) {
    const VolumeModel::Write write = target.model.begin_zeroes(op.sector, op.sectors, op.fua);
    core::WriteFlags flags;
    flags.fua = op.fua;
    Result<void> result = co_await target.volume->write_zeroes(op.sector, op.sectors, flags);
    target.model.end_write(write, result.has_value());
    judge(target, "write_zeroes", op, result);
}

Task<void> Load::discard(Target& target, Op op) {
    const VolumeModel::Write write = target.model.begin_discard(op.sector, op.sectors);
    Result<void> result = co_await target.volume->discard(op.sector, op.sectors);
    target.model.end_write(write, result.has_value());
    judge(target, "discard", op, result);
}

Task<void> Load::flush(Target& target) {
    const Stamp begun = target.model.begin_flush();
    Result<void> result = co_await target.volume->flush();
    target.model.end_flush(begun, result.has_value());
    const Op op;
    judge(target, "flush", op, result);
}

Task<void> Load::pause() {
    const Duration length = std::chrono::milliseconds(machine_.rng().below(40'000));
    co_await machine_.world().clock().sleep(length);
}

std::vector<Run> touched_runs(const VolumeModel& model, std::uint64_t longest) {
    std::vector<Run> runs;
    for (std::uint64_t s = 0; s < model.sectors(); ++s) {
        if (!model.touched(s)) continue;
        if (!runs.empty()) {
            Run& last = runs.back();
            if (last.sector + last.sectors == s && last.sectors < longest) {
                ++last.sectors;
                continue;
            }
        }
        runs.push_back({s, 1});
    }
    return runs;
}

Task<void> verify_volume(Machine& machine, Target& target) {
    const std::vector<Run> runs = touched_runs(target.model, 256);
    for (const Run& run : runs) {
        io::Buffer buffer = dirty_buffer(run.sectors);
        const Stamp begun = target.model.begin_read();
        Result<void> result = co_await target.volume->read(run.sector, buffer.span());
        if (!result) {
            machine.fail(target.label + ": verifying read at " + std::to_string(run.sector) +
                         " failed: " + name_of(result.error().code) + " (" + result.error().what +
                         ")");
            co_return;
        }
        const auto problem = target.model.end_read(begun, run.sector, buffer.span());
        if (problem) {
            machine.fail(target.label + ": after opening: " + *problem);
            co_return;
        }
    }
}

}  // namespace uc::sim
