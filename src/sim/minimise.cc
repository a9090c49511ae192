// A run is a function of its seed, so nothing can be taken out of it without changing all that
// follows. The limits take out what they can, and where the failure does not show any more, a few
// other salts are tried: with a tenth of the operations and another order it often shows again. One
// limit after the other, from the most to the least useful to a reader, each as tight as it goes.

#include "sim/minimise.h"

#include <cctype>
#include <vector>

#include "sim/seed_runner.h"

namespace uc::sim {

namespace {

constexpr unsigned kMostAttempts = 600;
constexpr std::uint64_t kSalts = 12;

class Minimiser {
public:
    Minimiser(std::uint64_t seed, const Mutations& mutations, const Limits& limits,
              const std::string& failure)
        : seed_(seed), mutations_(mutations), kind_(kind_of(failure)), best_{limits, failure, 0} {}

    Minimised run() {
        tighten(&Limits::lives, {1, 2, 3, 4, 5});
        turn_off(&Limits::faults);
        turn_off(&Limits::administration);
        turn_off(&Limits::discards);
        tighten(&Limits::volumes, {1, 2, 3});
        tighten(&Limits::ops, {5, 10, 20, 40, 80, 160, 320, 640, 1280});
        tighten(&Limits::clients, {1, 2, 4, 8});
        tighten(&Limits::sectors, {2, 8, 16, 32});
        // With the others in place this may go further.
        tighten(&Limits::ops, {3, 5, 8, 12, 18, 27, 40, 60, 90, 130, 200, 300});
        return best_;
    }

private:
    void tighten(std::uint64_t Limits::*field, const std::vector<std::uint64_t>& values) {
        for (const std::uint64_t value : values) {
            if (value >= best_.limits.*field) return;
            Limits limits = best_.limits;
            limits.*field = value;
            if (accept(limits)) return;
        }
    }
    void turn_off(bool Limits::*field) {
        if (!(best_.limits.*field)) return;
        Limits limits = best_.limits;
        limits.*field = false;
        accept(limits);
    }
    bool accept(Limits limits) {
        if (attempt(limits)) return true;
        for (std::uint64_t salt = 0; salt < kSalts; ++salt) {
            limits.salt = salt;
            if (attempt(limits)) return true;
        }
        return false;
    }
    bool attempt(const Limits& limits) {
        if (best_.attempts >= kMostAttempts) return false;
        ++best_.attempts;
        bool same = false;
        const Campaign campaign{{seed_, seed_}, 1, mutations_, limits};
        run_seeds(campaign, [&](const SeedResult& result) {
            same = kind_of(result.failure) == kind_;
            if (same) best_.failure = result.failure;
            return true;
        });
        if (same) best_.limits = limits;
        return same;
    }

    std::uint64_t seed_;
    Mutations mutations_;
    std::string kind_;
    Minimised best_;
};

}  // namespace

std::string kind_of(const std::string& failure) {
    std::string kind;
    for (const char c : failure.substr(0, failure.find_first_of(";("))) {
        if (std::isdigit(static_cast<unsigned char>(c)) == 0) kind += c;
    }
    return kind.substr(0, kind.find("expected"));
}

Minimised minimise(std::uint64_t seed, const Mutations& mutations, const Limits& limits,
                   const std::string& failure) {
    Minimiser minimiser(seed, mutations, limits, failure);
    return minimiser.run();
}

}  // namespace uc::sim
