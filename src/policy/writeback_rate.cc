// A controller with a proportional and an integral term steers the amount of dirty data to a share
// of the cache: target = writeback_percent of it, divided among the volumes by the sizes of their
// backing devices. The rate is what the error asks for, never below the minimum, so dirty data
// drains even below the target.
//
// The integral grows only while the device keeps up with the pacing (its next I/O is not overdue):
// else the error would be summed up although a higher rate could not help.
//
// Partly filled dirty buckets can use up a cache with little dirty data in it. The fragment term
// then raises the rate by how full the cache is and how little each used bucket holds.
//
// Kernel-compatible: integer arithmetic, truncating towards zero, in this order of operations.
#include "policy/writeback_rate.h"

#include <algorithm>
#include <optional>

namespace uc::policy {
namespace {

constexpr unsigned kShareShift = 14;
constexpr std::uint32_t kFragmentLow = 50, kFragmentMid = 57,
                        kFragmentHigh = 64;  // in_use per cent
constexpr std::int64_t kFragmented = 3;
constexpr Duration kMostBehind = std::chrono::seconds(2);
constexpr Duration kMostAhead = std::chrono::milliseconds(2500);

std::int64_t target_of(const RateInputs& in) {
    const std::uint64_t size = in.buckets * in.bucket_sectors;
    const std::uint64_t cache = size - std::min(size, in.flash_only_dirty);
    const std::uint64_t all = std::max<std::uint64_t>(in.all_backing_sectors, 1);
    const std::uint64_t share =
        std::max<std::uint64_t>((in.backing_sectors << kShareShift) / all, 1);
    return static_cast<std::int64_t>(((cache * in.writeback_percent / 100) * share) >> kShareShift);
}

// The rate that fragmentation asks for, if the cache is fragmented.
std::optional<std::int64_t> fragment_term(const RateInputs& in) {
    if (!in.consider_fragment || in.in_use_percent <= kFragmentLow || in.dirty == 0) {
        return std::nullopt;
    }
    if (in.available_buckets >= in.buckets) return std::nullopt;
    const auto used = static_cast<std::int64_t>(in.buckets - in.available_buckets);
    const auto dirty = static_cast<std::int64_t>(in.dirty);
    if (used * in.bucket_sectors / dirty <= kFragmented) return std::nullopt;

    std::int64_t factor = 0;
    if (in.in_use_percent <= kFragmentMid) {
        factor = std::int64_t{in.fragment_low} * (in.in_use_percent - kFragmentLow);
    } else if (in.in_use_percent <= kFragmentHigh) {
        factor = std::int64_t{in.fragment_mid} * (in.in_use_percent - kFragmentMid);
    } else {
        factor = std::int64_t{in.fragment_high} * (in.in_use_percent - kFragmentHigh);
    }
    return dirty / used * factor;
}

}  // namespace

void WritebackRate::update(const RateInputs& in, Instant now) {
    if (in.writeback_percent == 0 || in.dirty == 0) return;
    if (in.collecting) {
        idle_rounds_ = 0;
    } else if (idle_rounds_ < kIdleRounds) {
        ++idle_rounds_;
    }

    const std::int64_t target = target_of(in);
    const std::int64_t error = static_cast<std::int64_t>(in.dirty) - target;
    const std::int64_t by_error = error / std::max<std::int64_t>(in.p_term_inverse, 1);
    const std::int64_t proportional = std::max(by_error, fragment_term(in).value_or(by_error));

    const bool keeps_up = now < next_ + std::chrono::milliseconds(1);
    if ((error < 0 && integral_ > 0) || (error > 0 && keeps_up)) {
        integral_ += error * in.update_s;
    }
    const std::int64_t integral = integral_ / std::max<std::int64_t>(in.i_term_inverse, 1);

    const auto least = static_cast<std::int64_t>(std::clamp<std::uint64_t>(in.minimum, 1, kLimit));
    const std::int64_t rate =
        std::clamp(proportional + integral, least, static_cast<std::int64_t>(kLimit));
    terms_ = {.target = target,
              .proportional = proportional,
              .integral = integral,
              .change = rate - static_cast<std::int64_t>(rate_)};
    rate_ = static_cast<std::uint64_t>(rate);
}

void WritebackRate::set_rate(std::uint64_t sectors_per_s) {
    rate_ = std::clamp<std::uint64_t>(sectors_per_s, 1, kLimit);
}

void WritebackRate::submitted(std::uint64_t sectors, Instant now) {
    if (!unlimited()) {
        const std::uint64_t ns = sectors * 1'000'000'000 / rate_;
        next_ = next_ + Duration(static_cast<Duration::rep>(ns));
    }
    next_ = std::clamp(next_, now - kMostBehind, now + kMostAhead);
}

}  // namespace uc::policy
