// Knobs with the field's names and defaults (format section 8.3 to 8.5). Plain values; the set and
// its volumes read them at each decision, so a change takes effect at once.
#pragma once

#include <cstdint>

#include "base/mutations.h"
#include "ondisk/superblock.h"

namespace uc::core {

struct SetOptions {
    bool read_only = false;  // never write a byte to any device; replay happens in memory
    std::uint64_t node_cache_bytes = std::uint64_t{256} << 20;
    std::uint32_t journal_delay_ms = 100;
    std::uint32_t congested_read_threshold_us = 2000;
    std::uint32_t congested_write_threshold_us = 20000;
    std::uint32_t cutoff_writeback = 40;       // in_use per cent
    std::uint32_t cutoff_writeback_sync = 70;  // in_use per cent
    bool idle_max_writeback_rate = true;       // no limit while nobody uses the set
    // How long requests wait for a cache device that is out of reach with data that only it has.
    std::uint32_t cache_grace_s = 30;
    Mutations mutations;  // tests only
};

struct VolumeOptions {
    std::uint64_t sequential_cutoff_bytes = std::uint64_t{4} << 20;  // 0 disables
    bool writeback_running = true;
    std::uint32_t writeback_delay_s = 30;
    std::uint32_t writeback_percent = 10;
    std::uint64_t writeback_rate_sectors = 1024;  // current; set by the controller
    std::uint64_t writeback_rate_minimum_sectors = 8;
    std::uint32_t writeback_rate_update_s = 5;
    std::uint32_t writeback_rate_p_term_inverse = 40;
    std::uint32_t writeback_rate_i_term_inverse = 10000;
    bool writeback_metadata = true;  // no effect, as in the kernel
    bool writeback_consider_fragment = true;
    std::uint32_t writeback_rate_fp_term_low = 1;
    std::uint32_t writeback_rate_fp_term_mid = 10;
    std::uint32_t writeback_rate_fp_term_high = 1000;
};

}  // namespace uc::core
