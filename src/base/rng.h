// Deterministic random numbers (xoshiro256**). Every consumer gets one through its constructor.
#pragma once

#include <bit>
#include <cstdint>

namespace uc {

class Rng {
public:
    explicit Rng(std::uint64_t seed) {
        for (auto& word : state_) {  // splitmix64, so that similar seeds give unrelated streams
            seed += 0x9e3779b97f4a7c15;
            std::uint64_t z = seed;
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
            z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
            word = z ^ (z >> 31);
        }
    }

    std::uint64_t next() {
        const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
        const std::uint64_t t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = std::rotl(state_[3], 45);
        return result;
    }
    // Uniform in [0, bound); 0 for bound 0.
    std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
    // True with probability percent/100.
    bool percent(unsigned percent) { return below(100) < percent; }
    // An independent stream.
    Rng fork() { return Rng(next()); }

private:
    std::uint64_t state_[4];
};

}  // namespace uc
