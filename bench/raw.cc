#include "raw.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "io/buffer.h"

namespace uc::bench {

namespace {

std::int64_t read_clock_ns(clockid_t which) {
    timespec ts{};
    ::clock_gettime(which, &ts);
    return std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

constexpr std::size_t kFillBytes = std::size_t{1} << 20;

Result<void> fill(int fd, std::uint64_t bytes) {
    Rng rng(7);
    io::Buffer piece(kFillBytes);
    for (std::uint64_t at = 0; at < bytes; at += kFillBytes) {
        for (std::size_t i = 0; i < kFillBytes; i += sizeof(std::uint64_t)) {
            const std::uint64_t word = rng.next();
            std::memcpy(piece.data() + i, &word, sizeof word);
        }
        const std::size_t length = std::min<std::uint64_t>(kFillBytes, bytes - at);
        if (::pwrite(fd, piece.data(), length, static_cast<off_t>(at)) !=
            static_cast<ssize_t>(length)) {
            return fail(Errc::io, "cannot fill the file", errno);
        }
    }
    if (::fsync(fd) != 0) return fail(Errc::io, "cannot fill the file", errno);
    return {};
}

// The ring with `depth` requests in it.
class RawLoop {
public:
    RawLoop(int fd, std::uint64_t bytes, const Load& load, std::uint64_t seed)
        : load_(load),
          positions_(load, bytes, seed),
          memory_(std::size_t{load.block_bytes} * load.depth) {
        constexpr unsigned kFlags =
            IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
        if (io_uring_queue_init(load.depth, &ring_, kFlags) != 0) {
            CHECK(io_uring_queue_init(load.depth, &ring_, 0) == 0);
        }
        CHECK(io_uring_register_files(&ring_, &fd, 1) == 0);
    }
    ~RawLoop() { io_uring_queue_exit(&ring_); }
    RawLoop(const RawLoop&) = delete;
    RawLoop& operator=(const RawLoop&) = delete;

    void queue(std::uint64_t slot) {
        io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
        std::byte* const memory = memory_.data() + slot * load_.block_bytes;
        const std::uint64_t at = positions_.next_byte();
        if (load_.write) {
            io_uring_prep_write(sqe, 0, memory, load_.block_bytes, at);
        } else {
            io_uring_prep_read(sqe, 0, memory, load_.block_bytes, at);
        }
        sqe->flags |= IOSQE_FIXED_FILE;
        sqe->user_data = slot;
    }

    // Waits, then queues a new request for each one completed if `refill`; returns how many were.
    unsigned round(bool refill) {
        const int submitted = io_uring_submit_and_wait(&ring_, 1);
        CHECK(submitted >= 0 || submitted == -EINTR);
        unsigned head = 0;
        unsigned count = 0;
        io_uring_cqe* cqe = nullptr;
        io_uring_for_each_cqe(&ring_, head, cqe) {
            CHECK(cqe->res == static_cast<int>(load_.block_bytes));
            if (refill) queue(cqe->user_data);
            ++count;
        }
        io_uring_cq_advance(&ring_, count);
        return count;
    }

private:
    Load load_;
    Positions positions_;
    io::Buffer memory_;
    io_uring ring_{};
};

}  // namespace

Turn::Turn(std::chrono::nanoseconds length)
    : start_ns_(read_clock_ns(CLOCK_MONOTONIC)),
      start_cpu_ns_(read_clock_ns(CLOCK_PROCESS_CPUTIME_ID)),
      end_ns_(start_ns_ + length.count()) {}

bool Turn::over() const {
    return read_clock_ns(CLOCK_MONOTONIC) >= end_ns_;
}

Figures Turn::figures(std::uint64_t ops) const {
    const double wall_ns = static_cast<double>(read_clock_ns(CLOCK_MONOTONIC) - start_ns_);
    const double cpu_ns =
        static_cast<double>(read_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns_);
    const double count = static_cast<double>(std::max<std::uint64_t>(ops, 1));
    return {count / wall_ns * 1e9, cpu_ns / count};
}

MemoryCopy::MemoryCopy(std::size_t bytes) : bytes_(bytes) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memory_ = static_cast<std::byte*>(memory);
    std::memset(memory_, 0x5a, bytes_);
}

MemoryCopy::~MemoryCopy() {
    ::munmap(memory_, bytes_);
}

Figures MemoryCopy::run(const Load& load, std::chrono::nanoseconds length) {
    constexpr std::size_t kSliceBytes = std::size_t{1} << 20;  // between two looks at the clock
    const std::size_t per_slice = kSliceBytes / load.block_bytes;
    Positions positions(load, bytes_, rng_.next());
    io::Buffer outside(load.block_bytes);
    std::memset(outside.data(), 0x3c, outside.size());
    std::uint64_t ops = 0;
    const Turn turn(length);
    while (!turn.over()) {
        for (std::size_t i = 0; i < per_slice; ++i) {
            std::byte* const inside = memory_ + positions.next_byte();
            std::memcpy(load.write ? inside : outside.data(), load.write ? outside.data() : inside,
                        load.block_bytes);
            asm volatile("" : : "r"(outside.data()) : "memory");  // the copy is wanted
        }
        ops += per_slice;
    }
    return turn.figures(ops);
}

Result<std::unique_ptr<RawFile>> RawFile::create(const std::string& path, std::uint64_t bytes) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    if (fd < 0) return fail(Errc::io, "cannot create the file", errno);
    std::unique_ptr<RawFile> file(new RawFile(fd, bytes));
    struct stat status {};
    if (::fstat(fd, &status) == 0 && static_cast<std::uint64_t>(status.st_size) == bytes) {
        return file;
    }
    TRY_OK(fill(fd, bytes));
    return file;
}

Result<std::unique_ptr<RawFile>> RawFile::open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
    if (fd < 0) return fail(Errc::io, "cannot open", errno);
    const off_t end = ::lseek(fd, 0, SEEK_END);
    return std::unique_ptr<RawFile>(new RawFile(fd, static_cast<std::uint64_t>(end)));
}

RawFile::~RawFile() {
    ::close(fd_);
}

Figures RawFile::run(const Load& load, std::uint64_t bytes, std::chrono::nanoseconds length) {
    RawLoop loop(fd_, bytes, load, rng_.next());
    for (unsigned slot = 0; slot < load.depth; ++slot) loop.queue(slot);
    std::uint64_t ops = 0;
    unsigned in_flight = load.depth;
    const Turn turn(length);
    while (!turn.over()) ops += loop.round(true);
    const Figures figures = turn.figures(ops);
    while (in_flight > 0) in_flight -= loop.round(false);
    return figures;
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

Figures median(const std::vector<Figures>& turns) {
    std::vector<double> rates;
    std::vector<double> costs;
    for (const Figures& one : turns) {
        rates.push_back(one.ops_per_s);
        costs.push_back(one.cpu_ns_per_op);
    }
    return {median(std::move(rates)), median(std::move(costs))};
}

}  // namespace uc::bench
