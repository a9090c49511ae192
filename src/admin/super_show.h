// The text of `bcache-super-show` (format section 8.9), byte for byte that of bcache-tools 1.0.8,
// because scripts parse it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace uc::admin {

struct SuperShow {
    std::string out;    // standard output
    std::string error;  // standard error; empty if all is well
    int exit_code = 0;  // 0, 2 (not a sound superblock), 3 (experimental format)
};

// `bytes`: the 4096 bytes at sector 8. `force` goes on despite a wrong checksum.
SuperShow super_show(std::span<const std::byte> bytes, bool force);

}  // namespace uc::admin
