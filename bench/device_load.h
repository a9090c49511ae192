// The loads of raw.h on a BlockDevice, by one coroutine per request in flight.
#pragma once

#include <chrono>

#include "async/executor.h"
#include "io/block_device.h"
#include "io/uring_reactor.h"
#include "raw.h"

namespace uc::bench {

// For devices that complete through `reactor`.
Figures run_load(async::Executor& executor, io::UringReactor& reactor, io::BlockDevice& device,
                 const Load& load, std::chrono::nanoseconds turn, std::uint64_t seed);

// For devices that complete at once (io/mem_device.h).
Figures run_memory_load(async::Executor& executor, io::BlockDevice& device, const Load& load,
                        std::chrono::nanoseconds turn, std::uint64_t seed);

}  // namespace uc::bench
