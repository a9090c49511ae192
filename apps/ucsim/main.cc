// ucsim: runs the whole engine in a simulated world, one run per seed, and says which seeds fail.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "arguments.h"
#include "sim/minimise.h"
#include "sim/scenario.h"
#include "sim/seed_runner.h"

namespace {

using namespace uc::sim;

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

std::string replay(const Arguments& arguments, std::uint64_t seed, const Limits& limits) {
    std::string line = replay_line(seed, limits);
    if (!arguments.mutation.empty()) line += " --mutate " + arguments.mutation;
    return line;
}

void print_minimised(const Arguments& arguments, std::uint64_t seed, const std::string& failure) {
    if (!arguments.minimise) return;
    const Minimised less = minimise(seed, arguments.mutations, arguments.limits, failure);
    if (less.limits == arguments.limits) return;
    std::printf("shorter (%u attempts): %s: %s\n", less.attempts,
                replay(arguments, seed, less.limits).c_str(), less.failure.c_str());
}

int run_one(const Arguments& arguments) {
    ScenarioOptions options;
    options.seed = *arguments.seed;
    options.mutations = arguments.mutations;
    options.limits = arguments.limits;
    options.trace_volume = arguments.trace_volume;
    options.trace_sector = arguments.trace_sector;
    if (arguments.verbose) options.log = [](const std::string& line) { std::puts(line.c_str()); };
    const ScenarioResult result = run_scenario(options);
    if (!result.ok()) {
        std::printf("%s: %s\n", replay(arguments, *arguments.seed, arguments.limits).c_str(),
                    result.failure.c_str());
        print_minimised(arguments, *arguments.seed, result.failure);
        return 1;
    }
    if (arguments.verbose) std::printf("%s", result.seen.table().c_str());
    std::printf("seed %llu passed: %llu events, hash %016llx\n",
                static_cast<unsigned long long>(options.seed),
                static_cast<unsigned long long>(result.events),
                static_cast<unsigned long long>(result.hash));
    return 0;
}

// False if something was never seen and had to be.
bool judge_coverage(const Arguments& arguments, const Coverage& seen) {
    std::printf("%s", seen.table().c_str());
    if (!arguments.coverage) return true;
    bool whole = true;
    for (std::size_t i = 0; i < kSeen; ++i) {
        const auto what = static_cast<Seen>(i);
        if (seen.count(what) != 0) continue;
        whole = false;
        std::printf("ucsim: never happened: %s\n", text_of(what));
    }
    return whole;
}

int run_range(const Arguments& arguments) {
    const Campaign campaign{*arguments.range, arguments.jobs, arguments.mutations,
                            arguments.limits};
    Progress progress(campaign.range.count());
    Coverage seen;
    std::optional<SeedResult> first;
    const std::string problem = run_seeds(campaign, [&](const SeedResult& result) {
        seen.merge(result.seen);
        if (!result.failure.empty()) {
            if (!first) first = result;
            progress.clear();
            std::printf("%s: %s\n", replay(arguments, result.seed, arguments.limits).c_str(),
                        result.failure.c_str());
            std::fflush(stdout);
        }
        progress.step(!result.failure.empty());
        return true;
    });
    progress.clear();
    if (!problem.empty()) std::fprintf(stderr, "ucsim: %s\n", problem.c_str());
    const bool whole = judge_coverage(arguments, seen);
    if (first) print_minimised(arguments, first->seed, first->failure);
    return first || !problem.empty() || !whole ? 1 : 0;
}

int list_mutations() {
    for (const uc::MutationFacts& facts : uc::kMutations) {
        std::printf("%-28.*s I%-3u %.*s\n", static_cast<int>(facts.name.size()), facts.name.data(),
                    facts.rule, static_cast<int>(facts.what.size()), facts.what.data());
    }
    return 0;
}

// One row of the table in docs/testing.md.
bool measure(const Arguments& arguments, const uc::MutationFacts& facts) {
    const Campaign campaign{*arguments.range, arguments.jobs, uc::Mutations(facts.mutation),
                            arguments.limits};
    std::optional<SeedResult> lowest;
    std::uint64_t ran = 0;
    run_seeds(campaign, [&](const SeedResult& result) {
        ++ran;
        if (!result.failure.empty() && (!lowest || result.seed < lowest->seed)) lowest = result;
        // Another process may still be at a lower seed.
        return !lowest || ran < lowest->seed - campaign.range.first + 1;
    });
    std::printf("| `%.*s` | I%u | %s | %s |\n", static_cast<int>(facts.name.size()),
                facts.name.data(), facts.rule,
                lowest ? std::to_string(lowest->seed).c_str() : "none",
                lowest ? lowest->failure.substr(0, 90).c_str() : "");
    std::fflush(stdout);
    return lowest.has_value();
}

int measure_mutations(const Arguments& arguments) {
    bool all = true;
    for (const uc::MutationFacts& facts : uc::kMutations) {
        if (arguments.mutation.empty() || arguments.mutation == facts.name) {
            all &= measure(arguments, facts);
        }
    }
    return all ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    int status = 0;
    const auto arguments = parse_arguments(argc, argv, status);
    if (!arguments) return status;
    if (arguments->list_mutations) return list_mutations();
    if (arguments->measure_mutations && arguments->range) return measure_mutations(*arguments);
    return arguments->seed ? run_one(*arguments) : run_range(*arguments);
}
