// Reading and writing. A file may be used at any byte, a volume only in sectors of 512:
//
//   read   the sectors around the range, then the part that was asked for
//   write  whole sectors go straight to the volume; if an end is not on a sector boundary, the
//   sectors
//          at the ends are read first, merged, and written in one piece, while no other write runs
//   zero   (punched holes and zero ranges) the whole sectors by write_zeroes, the ends like a write
//
// A hole must read as zeroes afterwards, and a volume's discard does not promise that; hence
// write_zeroes. That is also what a loop device on the file needs, which maps both discard and
// zeroing to fallocate.
#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/units.h"
#include "frontend/errno_of.h"
#include "frontend/fuse_state.h"

namespace uc::frontend {

namespace {

// Below this, copying a write is cheaper than giving up the large receive buffer.
constexpr std::size_t kCopyBelow = std::size_t{128} << 10;
constexpr std::size_t kMaxRead = std::size_t{16} << 20;
constexpr std::array<std::byte, kSectorBytes> kZeroSector{};

FuseState& state_of(fuse_req_t request) {
    return *static_cast<FuseState*>(fuse_req_userdata(request));
}

void reply_done(fuse_req_t request, const Result<void>& done) {
    fuse_reply_err(request, done ? 0 : errno_of(done.error()));
}

// A range of bytes of a file and the sectors around it.
struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;

    std::uint64_t end() const { return offset + bytes; }
    std::uint64_t sector() const { return offset / kSectorBytes; }
    std::uint64_t sectors() const { return div_ceil(end(), kSectorBytes) - sector(); }
    std::uint64_t lead() const { return offset % kSectorBytes; }
    bool whole_sectors() const { return lead() == 0 && bytes % kSectorBytes == 0; }
};

Task<void> read_file(FuseUse file, fuse_req_t request, Range range) {
    PooledBuffer data = file.pool().take(range.sectors() * kSectorBytes);
    const std::span<std::byte> whole = data.first(range.sectors() * kSectorBytes);
    const Result<void> done = co_await file.volume().read(range.sector(), whole);
    if (!done) {
        fuse_reply_err(request, errno_of(done.error()));
        co_return;
    }
    const std::byte* const from = data.data() + range.lead();
    fuse_reply_buf(request, reinterpret_cast<const char*>(from), range.bytes);
}

// The caller is alone in the gate.
Task<Result<void>> merge_and_write(FuseUse& file, Range range, std::span<const std::byte> in,
                                   core::WriteFlags flags) {
    PooledBuffer data = file.pool().take(range.sectors() * kSectorBytes);
    const std::span<std::byte> whole = data.first(range.sectors() * kSectorBytes);
    const std::uint64_t last = range.sectors() - 1;
    const bool tail = range.end() % kSectorBytes != 0;
    if (range.lead() != 0 || (tail && last == 0)) {
        const std::span<std::byte> sector = whole.first(kSectorBytes);
        CO_OK(co_await file.volume().read(range.sector(), sector));
    }
    if (tail && last > 0) {
        const std::span<std::byte> sector = whole.last(kSectorBytes);
        CO_OK(co_await file.volume().read(range.sector() + last, sector));
    }
    std::memcpy(whole.data() + range.lead(), in.data(), in.size());
    co_return co_await file.volume().write(range.sector(), whole, flags);
}

// Whole sectors may be written beside each other; anything else only alone.
Task<void> enter_gate(WriteGate& gate, const Range range) {
    return range.whole_sectors() ? gate.enter() : gate.enter_alone();
}

Task<Result<void>> write_range(FuseUse& file, const Range range, std::span<const std::byte> in,
                               core::WriteFlags flags) {
    return range.whole_sectors() ? file.volume().write(range.sector(), in, flags)
                                 : merge_and_write(file, range, in, flags);
}

// `data` owns the bytes that `in` shows.
Task<void> write_file(FuseUse file, fuse_req_t request, Range range, PooledBuffer data,
                      std::span<const std::byte> in, core::WriteFlags flags) {
    co_await enter_gate(file.gate(), range);
    const WriteGate::Guard guard(file.gate());
    const Result<void> done = co_await write_range(file, range, in, flags);
    data.release();
    if (done) {
        fuse_reply_write(request, range.bytes);
    } else {
        fuse_reply_err(request, errno_of(done.error()));
    }
}

// The caller is alone in the gate if the range is not of whole sectors.
Task<Result<void>> zero_range(FuseUse& file, Range range) {
    const std::span<const std::byte> zeroes(kZeroSector);
    const core::WriteFlags flags;
    if (range.lead() != 0) {
        const Range head{range.offset, std::min(range.bytes, kSectorBytes - range.lead())};
        const std::span<const std::byte> in = zeroes.first(head.bytes);
        CO_OK(co_await merge_and_write(file, head, in, flags));
        range = Range{head.end(), range.bytes - head.bytes};
    }
    const std::uint64_t sectors = range.bytes / kSectorBytes;
    if (sectors > 0) {
        CO_OK(co_await file.volume().write_zeroes(range.sector(), sectors, flags));
        range = Range{range.offset + sectors * kSectorBytes, range.bytes % kSectorBytes};
    }
    if (range.bytes > 0) {
        const std::span<const std::byte> in = zeroes.first(range.bytes);
        CO_OK(co_await merge_and_write(file, range, in, flags));
    }
    co_return Result<void>();
}

Task<void> zero_file(FuseUse file, fuse_req_t request, Range range) {
    co_await enter_gate(file.gate(), range);
    const WriteGate::Guard guard(file.gate());
    const Result<void> done = co_await zero_range(file, range);
    reply_done(request, done);
}

Task<void> flush_file(FuseUse file, fuse_req_t request) {
    const Result<void> done = co_await file.volume().flush();
    reply_done(request, done);
}

void on_read(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info*) {
    FuseState& state = state_of(request);
    FuseFile* const file = state.find(ino);
    if (file == nullptr) {
        fuse_reply_err(request, ESTALE);
        return;
    }
    Range range{static_cast<std::uint64_t>(offset), std::min(size, kMaxRead)};
    if (offset < 0 || range.offset >= file->bytes() || size == 0) {
        fuse_reply_buf(request, nullptr, 0);
        return;
    }
    range.bytes = std::min(range.bytes, file->bytes() - range.offset);
    state.requests.spawn(read_file(FuseUse(state, *file), request, range));
}

void on_write(fuse_req_t request, fuse_ino_t ino, const char* from, std::size_t size, off_t offset,
              fuse_file_info* info) {
    FuseState& state = state_of(request);
    FuseFile* const file = state.find(ino);
    Range range{static_cast<std::uint64_t>(offset), size};
    if (file == nullptr) {
        fuse_reply_err(request, ESTALE);
        return;
    }
    if (offset < 0 || range.offset >= file->bytes()) {
        fuse_reply_err(request, ENOSPC);  // as at the end of a block device
        return;
    }
    range.bytes = std::min<std::uint64_t>(size, file->bytes() - range.offset);
    if (range.bytes == 0) {
        fuse_reply_write(request, 0);
        return;
    }
    std::span<const std::byte> in(reinterpret_cast<const std::byte*>(from), range.bytes);
    PooledBuffer data;
    if (range.bytes < kCopyBelow) {
        data = state.pool.take(range.bytes);
        std::memcpy(data.data(), from, range.bytes);
        in = data.first(range.bytes);
    } else {
        data = std::exchange(state.received, PooledBuffer());
    }
    core::WriteFlags flags;
    flags.fua = (info->flags & O_DSYNC) != 0;  // O_SYNC includes this bit
    state.requests.spawn(
        write_file(FuseUse(state, *file), request, range, std::move(data), in, flags));
}

void on_fsync(fuse_req_t request, fuse_ino_t ino, int, fuse_file_info*) {
    FuseState& state = state_of(request);
    FuseFile* const file = state.find(ino);
    if (file == nullptr) {
        fuse_reply_err(request, ESTALE);
        return;
    }
    state.requests.spawn(flush_file(FuseUse(state, *file), request));
}

// Closing a descriptor promises nothing about durability.
void on_flush(fuse_req_t request, fuse_ino_t, fuse_file_info*) {
    fuse_reply_err(request, 0);
}

void on_fallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t length,
                  fuse_file_info*) {
    FuseState& state = state_of(request);
    FuseFile* const file = state.find(ino);
    if (file == nullptr) {
        fuse_reply_err(request, ESTALE);
        return;
    }
    const int how = mode & ~FALLOC_FL_KEEP_SIZE;
    const bool zeroes = how == FALLOC_FL_PUNCH_HOLE || how == FALLOC_FL_ZERO_RANGE;
    if ((how != 0 && !zeroes) || offset < 0 || length <= 0) {
        fuse_reply_err(request, how != 0 && !zeroes ? EOPNOTSUPP : EINVAL);
        return;
    }
    Range range{static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(length)};
    const bool inside =
        range.offset <= file->bytes() && range.bytes <= file->bytes() - range.offset;
    if (!inside && (mode & FALLOC_FL_KEEP_SIZE) == 0) {
        fuse_reply_err(request, ENOSPC);  // would make the file longer
        return;
    }
    if (!inside) {
        range.bytes = range.offset < file->bytes() ? file->bytes() - range.offset : 0;
    }
    if (!zeroes || range.bytes == 0) {
        fuse_reply_err(request, 0);  // every byte of a volume is allocated
        return;
    }
    if (file->volume->read_only()) {
        fuse_reply_err(request, EROFS);
        return;
    }
    state.requests.spawn(zero_file(FuseUse(state, *file), request, range));
}

}  // namespace

void add_io_operations(fuse_lowlevel_ops& operations) {
    operations.read = on_read;
    operations.write = on_write;
    operations.fsync = on_fsync;
    operations.flush = on_flush;
    operations.fallocate = on_fallocate;
}

}  // namespace uc::frontend
