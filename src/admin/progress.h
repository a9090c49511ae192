// Progress of a write-back on standard error: one line that changes on a terminal, else a plain
// line now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace uc::admin {

class Progress {
public:
    explicit Progress(bool terminal) : terminal_(terminal) {}
    // Ends the line of what did not come to its end, so that an error stands on its own.
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void update(const std::string& volume, std::uint64_t total_bytes,
                std::uint64_t remaining_bytes);

    // "home: 1.2 GiB of 4 GiB written back (30%), 2 min 10 s left"; without the time if it cannot
    // be told yet.
    static std::string line(const std::string& volume, std::uint64_t total_bytes,
                            std::uint64_t remaining_bytes, double elapsed_s);

private:
    using Clock = std::chrono::steady_clock;
    bool terminal_;
    std::string volume_;
    Clock::time_point started_{};
    Clock::time_point printed_{};
    bool finished_ = true;
};

}  // namespace uc::admin
