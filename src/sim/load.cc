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

Load::Load(Machine& machine, const Phase& phase) : machine_(machine), phase_(phase) {
    apply(machine.limits(), phase_);
}

std::vector<Task<void>> Load::clients() {
    std::vector<Task<void>> tasks;
    for (unsigned i = 0; i < phase_.clients; ++i) tasks.push_back(client());
    return tasks;
}

Task<void> Load::client() {
    while (begun_ < phase_.ops && machine_.ops_left() && !machine_.failed()) {
        ++begun_;
        ++machine_.ops;
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

void judge(Machine& machine, Target& target, const Outcome& outcome, const Result<void>& result) {
    machine.world().note(result.has_value() ? outcome.sector : ~outcome.sector);
    if (result) return;
    machine.seen.add(Seen::request_errors);
    if (result.error().code == Errc::data_lost) {
        machine.seen.add(outcome.sectors == 0 ? Seen::losses_told : Seen::lost_reads);
    }
    if (machine.tolerant() || outcome.lenient) return;
    if (outcome.sectors == 0 && outcome.begun < target.told) return;
    if (outcome.sectors == 0 && target.untold > 0) {
        --target.untold;
        target.told = target.model.now();
        return;
    }
    const bool lost = result.error().code == Errc::data_lost;
    if (lost && target.model.may_be_lost(outcome.sector, outcome.sectors)) return;
    machine.fail(target.label + ": " + outcome.what + " of " + std::to_string(outcome.sectors) +
                 " sectors at " + std::to_string(outcome.sector) +
                 " failed: " + name_of(result.error().code) + " (" + result.error().what + ")");
}

Task<void> Load::read(Target& target, Op op) {
    io::Buffer buffer = dirty_buffer(op.sectors);
    const Outcome outcome{"read", op.sector, op.sectors, machine_.tolerant()};
    machine_.seen.add(Seen::reads);
    const Stamp begun = target.model.begin_read();
    Result<void> result = co_await target.volume->read(op.sector, buffer.span());
    machine_.trace_op(target, result ? "read" : "read failed", op.sector, op.sectors);
    judge(machine_, target, outcome, result);
    if (!result) {
        target.model.abandon_read(begun);
        co_return;
    }
    const auto problem = target.model.end_read(begun, op.sector, buffer.span());
    if (problem) machine_.fail(target.label + ": read: " + *problem);
}

Task<void> Load::write(Target& target, Op op) {
    io::Buffer buffer(op.sectors * kSectorBytes);
    const Outcome outcome{"write", op.sector, op.sectors, machine_.tolerant()};
    machine_.seen.add(Seen::writes);
    machine_.seen.add(Seen::forced_writes, op.fua);
    machine_.seen.add(Seen::overlaps, target.model.being_written(op.sector, op.sectors));
    const VolumeModel::Write write = target.model.begin_write(op.sector, buffer.span(), op.fua);
    core::WriteFlags flags;
    flags.fua = op.fua;
    flags.priority = op.priority;
    const std::string name = "write " + std::to_string(write.value) + (op.fua ? " fua" : "");
    machine_.trace_op(target, name, op.sector, op.sectors);
    Result<void> result = co_await target.volume->write(op.sector, buffer.span(), flags);
    machine_.trace_op(target, name + (result ? " done" : " failed"), op.sector, op.sectors);
    target.model.end_write(write, result.has_value());
    judge(machine_, target, outcome, result);
}

Task<void> Load::zeroes(Target& target, Op op) {
    const Outcome outcome{"write_zeroes", op.sector, op.sectors, machine_.tolerant()};
    machine_.seen.add(Seen::zeroes);
    const VolumeModel::Write write = target.model.begin_zeroes(op.sector, op.sectors, op.fua);
    core::WriteFlags flags;
    flags.fua = op.fua;
    Result<void> result = co_await target.volume->write_zeroes(op.sector, op.sectors, flags);
    target.model.end_write(write, result.has_value());
    judge(machine_, target, outcome, result);
}

Task<void> Load::discard(Target& target, Op op) {
    const Outcome outcome{"discard", op.sector, op.sectors, machine_.tolerant()};
    machine_.seen.add(Seen::discards);
    const VolumeModel::Write write = target.model.begin_discard(op.sector, op.sectors);
    Result<void> result = co_await target.volume->discard(op.sector, op.sectors);
    target.model.end_write(write, result.has_value());
    judge(machine_, target, outcome, result);
}

Task<void> Load::flush(Target& target) {
    machine_.seen.add(Seen::flushes);
    const Stamp begun = target.model.begin_flush();
    const Outcome outcome{"flush", 0, 0, machine_.tolerant(), begun};
    Result<void> result = co_await target.volume->flush();
    machine_.trace_op(target, result ? "flush done" : "flush failed", 0, 0);
    const auto problem = target.model.end_flush(begun, result.has_value());
    if (problem) machine_.fail(target.label + ": flush " + *problem);
    judge(machine_, target, outcome, result);
}

Task<void> Load::pause() {
    const Duration length = std::chrono::milliseconds(machine_.rng().below(40'000));
    co_await machine_.world().clock().sleep(length);
}

std::vector<Run> touched_runs(const VolumeModel& model, std::uint64_t longest, bool sure) {
    std::vector<Run> runs;
    for (std::uint64_t s = 0; s < model.sectors(); ++s) {
        if (!model.touched(s) || (sure && model.may_be_lost(s, 1))) continue;
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
        const Outcome outcome{"verifying read", run.sector, run.sectors, machine.tolerant()};
        const Stamp begun = target.model.begin_read();
        Result<void> result = co_await target.volume->read(run.sector, buffer.span());
        judge(machine, target, outcome, result);
        if (machine.failed()) co_return;
        if (!result) {
            target.model.abandon_read(begun);
            continue;
        }
        const auto problem = target.model.end_read(begun, run.sector, buffer.span());
        if (problem) {
            machine.fail(target.label + ": after opening: " + *problem);
            co_return;
        }
    }
}

}  // namespace uc::sim
