#include "arguments.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <thread>

namespace uc::sim {

namespace {

std::optional<std::uint64_t> parse_number(std::string_view text) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

// "17..40", or "40" for 1..40.
std::optional<SeedRange> parse_range(std::string_view text) {
    const std::size_t dots = text.find("..");
    if (dots == std::string_view::npos) {
        const auto last = parse_number(text);
        if (!last || *last == 0) return std::nullopt;
        return SeedRange{1, *last};
    }
    const auto first = parse_number(text.substr(0, dots));
    const auto last = parse_number(text.substr(dots + 2));
    if (!first || !last || *last < *first) return std::nullopt;
    return SeedRange{*first, *last};
}

std::string check(const std::string& seeds, const std::string& limits, const std::string& trace,
                  Arguments& arguments) {
    if (!arguments.mutation.empty()) {
        const auto mutation = mutation_named(arguments.mutation);
        if (!mutation) {
            return "there is no fault named " + arguments.mutation + "; --mutations lists them";
        }
        arguments.mutations = Mutations(*mutation);
    }
    const auto parsed = Limits::parse(limits);
    if (!parsed) return "--limits wants what a failed run printed, such as lives=2,ops=40";
    arguments.limits = *parsed;
    if (!trace.empty()) {
        const std::size_t colon = trace.find(':');
        const auto sector = parse_number(trace.substr(std::min(colon, trace.size() - 1) + 1));
        if (colon == std::string::npos || !sector) return "--trace wants back1:SECTOR";
        arguments.trace_volume = trace.substr(0, colon);
        arguments.trace_sector = *sector;
    }
    if (seeds.empty()) {
        if (arguments.seed || arguments.list_mutations) return "";
        return "one of --seed and --seeds is needed";
    }
    arguments.range = parse_range(seeds);
    return arguments.range ? ""
                           : "--seeds wants a number or FIRST..LAST, for example 500 or 17..40";
}

}  // namespace

std::optional<Arguments> parse_arguments(int argc, char** argv, int& status) {
    CLI::App app("Runs ubcache on simulated disks that reorder, tear, lose and vanish.");
    Arguments arguments;
    std::string seeds;
    std::string limits;
    std::string trace;
    arguments.jobs = std::max(1u, std::thread::hardware_concurrency());
    auto* const seed = app.add_option("--seed", arguments.seed, "run one seed");
    auto* const range = app.add_option("--seeds", seeds, "run a range: N for 1..N, or FIRST..LAST");
    seed->excludes(range);
    app.add_option("--jobs", arguments.jobs, "processes for --seeds (default: all cores)")
        ->check(CLI::Range(1, 256));
    app.add_flag("--verbose", arguments.verbose, "tell what happens (with --seed)");
    app.add_option("--trace", trace, "with --verbose: what happens to a sector, back1:SECTOR");
    app.add_option("--limits", limits, "cut the run down, as printed for a failed seed");
    app.add_flag("!--no-minimise", arguments.minimise, "do not look for a shorter failing run");
    app.add_flag("--coverage", arguments.coverage,
                 "fail if a class of events never happened (needs about 1000 seeds)");
    app.add_option("--mutate", arguments.mutation, "run with a deliberate fault in the engine");
    app.add_flag("--mutations", arguments.list_mutations, "list the deliberate faults");
    app.add_flag("--measure-mutations", arguments.measure_mutations,
                 "for each fault, the first seed of --seeds that notices it");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        status = app.exit(error) == 0 ? 0 : 2;
        return std::nullopt;
    }
    const std::string problem = check(seeds, limits, trace, arguments);
    if (problem.empty()) return arguments;
    std::fprintf(stderr, "ucsim: %s\n", problem.c_str());
    status = 2;
    return std::nullopt;
}

}  // namespace uc::sim
