// ucsim: runs the whole engine in a simulated world, one run per seed, and says which seeds fail.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "sim/scenario.h"
#include "sim/seed_runner.h"

namespace {

using uc::Mutations;

const std::map<std::string, bool Mutations::*> kMutations = {
    {"skip_journal_flush", &Mutations::skip_journal_flush},
    {"reuse_before_gen_durable", &Mutations::reuse_before_gen_durable},
    {"clear_dirty_before_backing_flush", &Mutations::clear_dirty_before_backing_flush},
    {"fill_wins_against_write", &Mutations::fill_wins_against_write},
    {"ack_before_key", &Mutations::ack_before_key},
    {"skip_durable_invalidation", &Mutations::skip_durable_invalidation},
    {"skip_freed_node_record", &Mutations::skip_freed_node_record},
    {"skip_dirty_state", &Mutations::skip_dirty_state},
};

struct Arguments {
    std::optional<std::uint64_t> seed;
    std::string seeds;
    unsigned jobs = 1;
    bool verbose = false;
    std::string mutation;
};

std::optional<uc::sim::SeedRange> parse_range(const std::string& text) {
    unsigned long long first = 0;
    unsigned long long last = 0;
    int used = 0;
    if (std::sscanf(text.c_str(), "%llu..%llu%n", &first, &last, &used) != 2 ||
        static_cast<std::size_t>(used) != text.size() || last < first) {
        return std::nullopt;
    }
    return uc::sim::SeedRange{first, last};
}

// One line that is rewritten on a terminal, a line per tenth of the way otherwise.
class Progress {
public:
    explicit Progress(std::uint64_t total) : total_(total) {}

    void step(bool failed) {
        ++done_;
        if (failed) ++failed_;
        if (terminal_) {
            print("\r", "\033[K");
        } else if (done_ * 10 / total_ != (done_ - 1) * 10 / total_) {
            print("", "\n");
        }
    }
    // Before another line is printed.
    void clear() const {
        if (terminal_) std::fprintf(stderr, "\r\033[K");
    }

private:
    void print(const char* before, const char* after) const {
        const auto elapsed = std::chrono::steady_clock::now() - start_;
        const double seconds = std::chrono::duration<double>(elapsed).count();
        const double left =
            seconds / static_cast<double>(done_) * static_cast<double>(total_ - done_);
        std::fprintf(stderr, "%s%llu of %llu seeds, %llu failed, %.0f s to go%s", before,
                     static_cast<unsigned long long>(done_),
                     static_cast<unsigned long long>(total_),
                     static_cast<unsigned long long>(failed_), left, after);
        std::fflush(stderr);
    }

    std::uint64_t total_;
    std::uint64_t done_ = 0;
    std::uint64_t failed_ = 0;
    bool terminal_ = ::isatty(STDERR_FILENO) == 1;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

int run_one(std::uint64_t seed, const Mutations& mutations, bool verbose) {
    uc::sim::ScenarioOptions options;
    options.seed = seed;
    options.mutations = mutations;
    if (verbose) options.log = [](const std::string& line) { std::puts(line.c_str()); };
    const uc::sim::ScenarioResult result = uc::sim::run_scenario(options);
    if (!result.ok()) {
        std::printf("%s\n", uc::sim::failure_line(seed, result).c_str());
        return 1;
    }
    std::printf("seed %llu passed: %llu events, %u crashes, hash %016llx\n",
                static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(result.events), result.crashes,
                static_cast<unsigned long long>(result.hash));
    return 0;
}

int run_range(uc::sim::SeedRange range, unsigned jobs, const Mutations& mutations) {
    Progress progress(range.count());
    bool failed = false;
    const std::string problem = uc::sim::run_seeds(
        range, jobs, mutations, [&](std::uint64_t seed, const std::string& failure) {
            if (!failure.empty()) {
                failed = true;
                progress.clear();
                std::printf("ucsim --seed %llu: %s\n", static_cast<unsigned long long>(seed),
                            failure.c_str());
                std::fflush(stdout);
            }
            progress.step(!failure.empty());
            return true;
        });
    progress.clear();
    if (!problem.empty()) std::fprintf(stderr, "ucsim: %s\n", problem.c_str());
    return failed || !problem.empty() ? 1 : 0;
}

int run(const Arguments& arguments) {
    Mutations mutations;
    if (!arguments.mutation.empty()) mutations.*kMutations.at(arguments.mutation) = true;
    if (arguments.seed) return run_one(*arguments.seed, mutations, arguments.verbose);
    const auto range = parse_range(arguments.seeds);
    if (!range) {
        std::fprintf(stderr, "ucsim: --seeds wants FIRST..LAST, for example 1..500\n");
        return 2;
    }
    return run_range(*range, arguments.jobs, mutations);
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Runs ubcache on simulated disks that reorder, tear and lose, and crashes it.");
    Arguments arguments;
    auto* const seed = app.add_option("--seed", arguments.seed, "run one seed");
    auto* const seeds = app.add_option("--seeds", arguments.seeds, "run a range, FIRST..LAST");
    seed->excludes(seeds);
    app.add_option("--jobs", arguments.jobs, "processes for --seeds")->check(CLI::Range(1, 256));
    app.add_flag("--verbose", arguments.verbose, "tell what happens (with --seed)");
    app.add_option("--mutate", arguments.mutation, "run with a deliberate fault in the engine")
        ->check(CLI::IsMember(kMutations));
    app.require_option(1, 0);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (!arguments.seed && arguments.seeds.empty()) {
        std::fprintf(stderr, "ucsim: one of --seed and --seeds is needed\n");
        return 2;
    }
    return run(arguments);
}
