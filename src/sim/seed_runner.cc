// Child j runs seeds first + j, first + j + jobs, ... and writes a record per seed into its pipe.
// When a pipe ends before the child's last seed, the seed after the last record has killed it: that
// is a failure, and a new child goes on with the next one.

#include "sim/seed_runner.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

#include "sim/scenario.h"

namespace uc::sim {

namespace {

struct Child {
    pid_t pid = -1;
    int pipe = -1;
    std::uint64_t next = 0;  // the seed whose record comes next
    std::string received;
};

struct RecordHeader {
    std::uint64_t seed = 0;
    Coverage seen;
    std::uint64_t length = 0;  // of the failure, which follows
};
static_assert(std::is_trivially_copyable_v<RecordHeader>);

void write_all(int fd, const char* data, std::size_t bytes) {
    while (bytes > 0) {
        const ssize_t written = ::write(fd, data, bytes);
        if (written <= 0) ::_exit(2);  // the parent is gone
        data += written;
        bytes -= static_cast<std::size_t>(written);
    }
}

[[noreturn]] void run_child(int fd, std::uint64_t seed, const Campaign& campaign) {
    for (; seed <= campaign.range.last; seed += campaign.jobs) {
        ScenarioOptions options;
        options.seed = seed;
        options.mutations = campaign.mutations;
        options.limits = campaign.limits;
        const ScenarioResult result = run_scenario(options);
        const std::string& failure = result.failure;
        const RecordHeader header{seed, result.seen, failure.size()};
        std::array<char, sizeof(header)> bytes{};
        std::memcpy(bytes.data(), &header, sizeof(header));
        write_all(fd, bytes.data(), bytes.size());
        write_all(fd, failure.data(), failure.size());
    }
    ::_exit(0);
}

bool start(Child& child, const Campaign& campaign) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return false;
    child.received.clear();
    child.pid = ::fork();
    if (child.pid < 0) return false;
    if (child.pid == 0) {
        ::close(ends[0]);
        run_child(ends[1], child.next, campaign);
    }
    ::close(ends[1]);
    child.pipe = ends[0];
    return true;
}

// Takes whole records out of what was received; false if the reader has seen enough.
bool take_records(Child& child, unsigned step, const SeedReport& report) {
    RecordHeader header;
    while (child.received.size() >= sizeof(header)) {
        std::memcpy(&header, child.received.data(), sizeof(header));
        if (child.received.size() < sizeof(header) + header.length) return true;
        const SeedResult result{header.seed, child.received.substr(sizeof(header), header.length),
                                header.seen};
        child.received.erase(0, sizeof(header) + header.length);
        child.next = header.seed + step;
        if (!report(result)) return false;
    }
    return true;
}

int reap(Child& child) {
    ::close(child.pipe);
    child.pipe = -1;
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    return status;
}

std::string how_it_died(int status) {
    if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
    return "exited with " + std::to_string(WEXITSTATUS(status));
}

class SeedRunner {
public:
    SeedRunner(const Campaign& campaign, const SeedReport& report)
        : campaign_(campaign), report_(report), children_(campaign.jobs) {}
    ~SeedRunner() {
        for (Child& child : children_) {
            if (child.pipe < 0) continue;
            ::kill(child.pid, SIGKILL);
            reap(child);
        }
    }
    SeedRunner(const SeedRunner&) = delete;
    SeedRunner& operator=(const SeedRunner&) = delete;

    std::string run() {
        for (std::size_t i = 0; i < children_.size(); ++i) {
            children_[i].next = campaign_.range.first + i;
            if (!start_next(children_[i])) return "cannot start a process";
        }
        while (true) {
            std::vector<pollfd> polled;
            bool any = false;
            for (const Child& child : children_) {
                polled.push_back({child.pipe, POLLIN, 0});
                any |= child.pipe >= 0;
            }
            if (!any) return "";
            ::poll(polled.data(), polled.size(), -1);
            for (std::size_t i = 0; i < children_.size(); ++i) {
                if (polled[i].fd < 0 || polled[i].revents == 0) continue;
                if (!receive(children_[i])) return "";
            }
        }
    }

private:
    unsigned step() const { return campaign_.jobs; }
    // True also if nothing is left to start.
    bool start_next(Child& child) {
        return child.next > campaign_.range.last || start(child, campaign_);
    }
    bool receive(Child& child) {
        std::array<char, 4096> bytes{};
        const ssize_t got = ::read(child.pipe, bytes.data(), bytes.size());
        if (got > 0) {
            child.received.append(bytes.data(), static_cast<std::size_t>(got));
            return take_records(child, step(), report_);
        }
        const int status = reap(child);
        if (child.next > campaign_.range.last) return true;
        const SeedResult result{child.next, how_it_died(status), {}};
        child.next += step();
        return report_(result) && start_next(child);
    }

    const Campaign& campaign_;
    const SeedReport& report_;
    std::vector<Child> children_;
};

}  // namespace

std::string run_seeds(const Campaign& campaign, const SeedReport& report) {
    SeedRunner runner(campaign, report);
    return runner.run();
}

}  // namespace uc::sim
