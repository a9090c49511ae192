// The event loop. One turn is: fire due timers, resume ready tasks, hand everything they queued to
// the kernel in one system call which also waits, collect all completions. So the more is going on,
// the fewer system calls a request costs.
//
// Invariants:
//  * An operation is counted in in_flight_ from prepare() to dispatch(), and dispatched exactly
//  once.
//  * complete() runs from reap() only, never inside prepare(): when prepare() must collect
//  completions
//    to make room it parks them in `parked`, so a complete() that prepares its next step never
//    nests.
//  * Tasks are resumed by the executor only, a bounded number per turn: a task that keeps yielding
//    cannot keep the others from their completions.
//  * Timers fire in the order (due, order of arming). Nothing but now() and the wait looks at the
//  time.
#include "io/uring_reactor.h"

#include <absl/container/btree_set.h>
#include <liburing.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <compare>
#include <vector>

#include "base/check.h"

namespace uc::io {

namespace {

constexpr unsigned kFileSlots = 64;
constexpr int kResumesPerTurn = 1024;
constexpr int kMaxInterruptions = 16;
constexpr unsigned kReapBatch = 64;
constexpr std::uint64_t kLasting = 1;  // in the user data, beside the operation's address

struct TimerKey {
    Instant due;
    std::uint64_t order;
    Timer* timer;
    std::strong_ordering operator<=>(const TimerKey& rhs) const {
        if (const auto by_due = due <=> rhs.due; by_due != 0) return by_due;
        return order <=> rhs.order;
    }
    bool operator==(const TimerKey& rhs) const { return (*this <=> rhs) == 0; }
};

struct Completion {
    std::uint64_t user_data;
    int result;
};

std::int64_t read_clock_ns(clockid_t which) {
    timespec ts{};
    ::clock_gettime(which, &ts);
    return std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

__kernel_timespec to_timespec(Duration d) {
    __kernel_timespec ts{};
    ts.tv_sec = d.count() / 1'000'000'000;
    ts.tv_nsec = d.count() % 1'000'000'000;
    return ts;
}

// The newest set of flags first; older kernels refuse flags they do not know.
int init_ring(io_uring* ring, unsigned depth) {
    constexpr unsigned kCommon = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    constexpr std::array kFlagSets = {
        kCommon | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER |
            IORING_SETUP_DEFER_TASKRUN,
        kCommon | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN,
        kCommon,
    };
    int result = -EINVAL;
    for (const unsigned flags : kFlagSets) {
        io_uring_params params{};
        params.flags = flags;
        params.cq_entries = depth * 4;
        result = io_uring_queue_init_params(depth, ring, &params);
        if (result != -EINVAL) break;
    }
    return result;
}

}  // namespace

struct UringReactor::State {
    io_uring ring{};
    bool ring_ready = false;
    absl::btree_set<TimerKey> timers;
    std::vector<Completion> parked;
    std::vector<Completion> dispatching;
    std::vector<int> free_file_slots;
    std::vector<std::shared_ptr<const void>> kept;  // until the ring is gone: see ~State()

    ~State() {
        if (ring_ready) io_uring_queue_exit(&ring);
    }

    // Moves up to kReapBatch completions out of the ring; returns how many.
    unsigned collect(std::vector<Completion>& out) {
        std::array<io_uring_cqe*, kReapBatch> cqes;
        const unsigned count = io_uring_peek_batch_cqe(&ring, cqes.data(), kReapBatch);
        for (unsigned i = 0; i < count; ++i) out.push_back({cqes[i]->user_data, cqes[i]->res});
        io_uring_cq_advance(&ring, count);
        return count;
    }
};

Result<std::unique_ptr<UringReactor>> UringReactor::create(async::Executor& executor,
                                                           unsigned queue_depth) {
    auto state = std::make_unique<State>();
    const int result = init_ring(&state->ring, std::clamp(queue_depth, 1U, 16384U));
    if (result < 0) return fail(Errc::unsupported, "io_uring is not available", -result);
    state->ring_ready = true;
    if (io_uring_register_files_sparse(&state->ring, kFileSlots) == 0) {
        for (unsigned slot = kFileSlots; slot > 0; --slot) {
            state->free_file_slots.push_back(static_cast<int>(slot) - 1);
        }
    }
    return std::unique_ptr<UringReactor>(new UringReactor(executor, std::move(state)));
}

UringReactor::UringReactor(async::Executor& executor, std::unique_ptr<State> state)
    : executor_(executor), state_(std::move(state)) {}

UringReactor::~UringReactor() {
    if (in_flight_ > 0) cancel_all();
    settle(in_flight_);
    io_uring_submit(&state_->ring);  // what lasting operations have to say last
}

void UringReactor::cancel_all() {
    struct Ignore final : UringOp {
        void complete(int) override {}
    };
    closing_ = true;
    Ignore cancel;
    io_uring_sqe* const sqe = prepare(&cancel);
    io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
    settle(in_flight_);
}

void UringReactor::settle(const std::size_t& device_in_flight) {
    while (device_in_flight > 0) {
        if (state_->parked.empty()) io_uring_submit_and_wait(&state_->ring, 1);
        reap();
    }
}

void UringReactor::run() {
    while (!stopping_) turn(true);
    stopping_ = false;
}

void UringReactor::turn(bool wait) {
    if (wait && executor_.idle() && state_->parked.empty()) {
        submit_and_wait();
    } else {
        io_uring_submit_and_get_events(&state_->ring);
    }
    reap();
    if (!state_->timers.empty()) fire_timers();
    resume_ready();
}

void UringReactor::resume_ready() {
    int budget = kResumesPerTurn;
    while (budget > 0 && executor_.run_one()) --budget;
}

void UringReactor::submit_and_wait() {
    int result = 0;
    if (state_->timers.empty()) {
        CHECK(in_flight_ + lasting_ >
              0);  // else nothing could ever wake us: a task waits for nobody
        result = io_uring_submit_and_wait(&state_->ring, 1);
    } else {
        const Duration left = state_->timers.begin()->due - now();
        __kernel_timespec timeout = to_timespec(std::max(left, Duration{0}));
        io_uring_cqe* first = nullptr;
        result = io_uring_submit_and_wait_timeout(&state_->ring, &first, 1, &timeout, nullptr);
    }
    // A lack of memory or room is temporary: what was not submitted stays queued for the next turn.
    CHECK(result >= 0 || result == -EINTR || result == -ETIME || result == -EAGAIN ||
          result == -EBUSY);
}

void UringReactor::reap() {
    State& state = *state_;
    do {
        state.dispatching.clear();
        state.dispatching.swap(state.parked);
        state.collect(state.dispatching);
        for (const Completion& done : state.dispatching) {
            dispatch(done.user_data, done.result);
        }
    } while (io_uring_cq_ready(&state.ring) > 0 || !state.parked.empty());
}

void UringReactor::dispatch(std::uint64_t user_data, int result) {
    if (user_data == LIBURING_UDATA_TIMEOUT) return;  // liburing's own, old kernels
    std::size_t& count = (user_data & kLasting) != 0 ? lasting_ : in_flight_;
    CHECK(count > 0);
    --count;
    reinterpret_cast<UringOp*>(user_data & ~kLasting)->complete(result);
}

io_uring_sqe* UringReactor::next_entry() {
    io_uring_sqe* sqe = io_uring_get_sqe(&state_->ring);
    while (sqe == nullptr) {
        make_room();
        sqe = io_uring_get_sqe(&state_->ring);
    }
    return sqe;
}

io_uring_sqe* UringReactor::prepare(UringOp* op) {
    io_uring_sqe* const sqe = next_entry();
    io_uring_sqe_set_data(sqe, op);
    ++in_flight_;
    return sqe;
}

io_uring_sqe* UringReactor::prepare_lasting(UringOp* op) {
    io_uring_sqe* const sqe = next_entry();
    io_uring_sqe_set_data64(sqe, reinterpret_cast<std::uint64_t>(op) | kLasting);
    ++lasting_;
    return sqe;
}

void UringReactor::keep(std::shared_ptr<const void> memory) {
    state_->kept.push_back(std::move(memory));
}

// The submission queue is full. If the kernel does not take more before we collect completions, we
// do that, but leave their handling to reap().
void UringReactor::make_room() {
    const int result = io_uring_submit(&state_->ring);
    if (result > 0 || result == -EINTR) return;
    CHECK(result == 0 || result == -EAGAIN || result == -EBUSY);
    io_uring_get_events(&state_->ring);
    while (state_->collect(state_->parked) == kReapBatch) {
    }
}

int UringReactor::register_file(int fd) {
    if (state_->free_file_slots.empty()) return -1;
    const int slot = state_->free_file_slots.back();
    if (io_uring_register_files_update(&state_->ring, static_cast<unsigned>(slot), &fd, 1) != 1) {
        return -1;
    }
    state_->free_file_slots.pop_back();
    return slot;
}

void UringReactor::unregister_file(int slot) {
    const int none = -1;
    CHECK(io_uring_register_files_update(&state_->ring, static_cast<unsigned>(slot), &none, 1) ==
          1);
    state_->free_file_slots.push_back(slot);
}

Instant UringReactor::now() const {
    return Instant{Duration{read_clock_ns(CLOCK_MONOTONIC)}};
}

std::uint32_t UringReactor::wall_seconds() const {
    return static_cast<std::uint32_t>(read_clock_ns(CLOCK_REALTIME) / 1'000'000'000);
}

void UringReactor::arm(Timer* timer) {
    CHECK(!timer->armed);
    timer->order = timer_order_++;
    timer->armed = true;
    state_->timers.insert({timer->due, timer->order, timer});
}

void UringReactor::cancel(Timer* timer) {
    if (!timer->armed) return;
    timer->armed = false;
    CHECK(state_->timers.erase({timer->due, timer->order, timer}) == 1);
}

// Those due at the start; one that is armed while we fire waits for the next turn.
void UringReactor::fire_timers() {
    const Instant until = now();
    const std::uint64_t first_new = timer_order_;
    while (!state_->timers.empty()) {
        const auto first = state_->timers.begin();
        if (first->due > until || first->order >= first_new) break;
        Timer* const timer = first->timer;
        state_->timers.erase(first);
        timer->armed = false;
        timer->fire();
    }
}

UringReactor::OpAwaiter UringReactor::recv(int fd, std::span<std::byte> out) {
    return OpAwaiter(*this, OpAwaiter::Kind::recv, fd, out.data(), out.size(), 0);
}

UringReactor::OpAwaiter UringReactor::send(int fd, std::span<const std::byte> in) {
    return OpAwaiter(*this, OpAwaiter::Kind::send, fd, const_cast<std::byte*>(in.data()), in.size(),
                     0);
}

UringReactor::OpAwaiter UringReactor::accept(int fd) {
    return OpAwaiter(*this, OpAwaiter::Kind::accept, fd, nullptr, 0, 0);
}

UringReactor::OpAwaiter UringReactor::poll(int fd, unsigned events) {
    return OpAwaiter(*this, OpAwaiter::Kind::poll, fd, nullptr, 0, events);
}

void UringReactor::OpAwaiter::start() {
    io_uring_sqe* const sqe = reactor_.prepare(this);
    switch (kind_) {
        case Kind::recv:
            io_uring_prep_recv(sqe, fd_, data_, bytes_, 0);
            break;
        case Kind::send:
            io_uring_prep_send(sqe, fd_, data_, bytes_, MSG_NOSIGNAL);
            break;
        case Kind::accept:
            io_uring_prep_accept(sqe, fd_, nullptr, nullptr, SOCK_CLOEXEC);
            break;
        case Kind::poll:
            io_uring_prep_poll_add(sqe, fd_, events_);
            break;
    }
}

void UringReactor::OpAwaiter::complete(int result) {
    if (result == -EINTR && interruptions_ < kMaxInterruptions && !reactor_.closing_) {
        ++interruptions_;
        start();
        return;
    }
    result_ = result;
    waiter_->wake();
}

Result<std::size_t> UringReactor::OpAwaiter::await_resume() const {
    if (result_ < 0) return fail(Errc::io, "operation on a descriptor failed", -result_);
    return static_cast<std::size_t>(result_);
}

}  // namespace uc::io
