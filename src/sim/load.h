// Clients of the volumes: requests drawn from the seed, judged by the model.
#pragma once

#include <cstdint>
#include <vector>

#include "async/task.h"
#include "sim/machine.h"
#include "sim/plan.h"

namespace uc::sim {

class Load {
public:
    Load(Machine& machine, const Phase& phase);
    Load(const Load&) = delete;
    Load& operator=(const Load&) = delete;

    // One operation after the other.
    Task<void> client();
    // The tasks of one phase, for Machine::perform_all(). The load must outlive them.
    std::vector<Task<void>> clients();

private:
    enum class Kind : std::uint8_t { read, write, flush, discard, zeroes, pause };
    struct Op {
        Kind kind = Kind::read;
        std::uint64_t sector = 0;
        std::uint64_t sectors = 0;
        bool fua = false;
        bool priority = false;
    };

    Op draw(const Target& target);
    Kind draw_kind();
    void draw_range(const Target& target, Op& op);
    Task<void> run(Target& target, Op op);
    Task<void> read(Target& target, Op op);
    Task<void> write(Target& target, Op op);
    Task<void> zeroes(Target& target, Op op);
    Task<void> discard(Target& target, Op op);
    Task<void> flush(Target& target);
    Task<void> pause();

    Machine& machine_;
    Phase phase_;
    unsigned begun_ = 0;
    std::uint64_t cursor_ = 0;  // of sequential runs
};

// Whether an error of a request is allowed: while something goes wrong, and afterwards as far as it
// says that unflushed writes are lost (I39). `lenient`: something went wrong when it began.
struct Outcome {
    const char* what;
    std::uint64_t sector = 0;
    std::uint64_t sectors = 0;  // 0: a flush
    bool lenient = false;
    Stamp begun = 0;  // of a flush
};
void judge(Machine& machine, Target& target, const Outcome& outcome, const Result<void>& result);

// Reads every sector that was ever written, through the volume.
Task<void> verify_volume(Machine& machine, Target& target);

// The touched sectors as runs of at most `longest`, for reading them in large pieces.
struct Run {
    std::uint64_t sector = 0;
    std::uint64_t sectors = 0;
};
// `sure`: without those whose newest value may be lost (I39).
std::vector<Run> touched_runs(const VolumeModel& model, std::uint64_t longest, bool sure = false);

}  // namespace uc::sim
