// What looking for a cache device and for a backing device have in common.
#pragma once

#include "async/task.h"
#include "base/units.h"
#include "io/block_device.h"
#include "io/buffer.h"
#include "ondisk/superblock.h"

namespace uc::core {

inline constexpr Duration kLookAgain = std::chrono::seconds(1);

inline Task<Result<ondisk::Superblock>> read_superblock(io::BlockDevice& device) {
    io::Buffer bytes(ondisk::kSuperblockBytes);
    CO_OK(co_await device.read(ondisk::kSuperblockSector, bytes.span()));
    co_return ondisk::decode_superblock(bytes.span(), device.size_sectors(),
                                        device.logical_block_sectors());
}

}  // namespace uc::core
