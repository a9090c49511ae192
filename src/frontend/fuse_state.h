// Private to the FUSE front end: what its operations share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "async/sync.h"
#include "core/volume.h"
#include "frontend/buffer_pool.h"
#include "frontend/fuse_session.h"
#include "frontend/write_gate.h"
#include "io/uring_reactor.h"

namespace uc::frontend {

// A name with a volume. When the volume is no longer exported, the file stays in the table as
// `gone` until the end; the same name or volume exported again is another file.
struct FuseFile {
    fuse_ino_t ino = 0;
    std::string name;
    core::Volume* volume = nullptr;  // may dangle if gone and nothing is running
    bool gone = false;
    unsigned running = 0;  // requests that use the volume
    WriteGate gate;

    std::uint64_t bytes() const { return volume->size_sectors() * kSectorBytes; }
};

struct FuseState {
    // The kernel sends at most this much with one request.
    static constexpr std::size_t kMaxTransfer = std::size_t{1} << 20;
    // A write's data follows the headers of 80 bytes. Received this far into a page-aligned buffer,
    // the data starts on a page and goes to the device without a copy.
    static constexpr std::size_t kHeaders = 80;
    static constexpr std::size_t kReceiveAt = io::Buffer::kAlign - kHeaders;
    static constexpr std::size_t kReceiveBytes = kReceiveAt + kHeaders + kMaxTransfer;

    FuseState(io::UringReactor& with_reactor, async::Executor& executor);
    FuseState(const FuseState&) = delete;
    FuseState& operator=(const FuseState&) = delete;

    // Null: no such file, or gone.
    FuseFile* find(fuse_ino_t ino);
    FuseFile* find(const std::string& name);

    io::UringReactor& reactor;
    BufferPool pool;
    // Never shrinks, so that an inode number means one file for ever: number = index + 2.
    std::vector<std::unique_ptr<FuseFile>> files;
    async::TaskGroup requests;
    async::Event changed;   // a request or serve() has ended
    PooledBuffer received;  // the request being processed; a large write takes it over

    FuseSession session;
    bool serving = false;
    bool stopping = false;
};

// A request's hold on a file: its volume stays valid. Made before the request's task is spawned.
class FuseUse {
public:
    FuseUse(FuseState& state, FuseFile& file) : state_(&state), file_(&file) { ++file_->running; }
    FuseUse(FuseUse&& other) noexcept
        : state_(other.state_), file_(std::exchange(other.file_, nullptr)) {}
    FuseUse& operator=(FuseUse&&) = delete;
    ~FuseUse() {
        if (file_ == nullptr) return;
        --file_->running;
        state_->changed.notify();
    }

    BufferPool& pool() const { return state_->pool; }
    core::Volume& volume() const { return *file_->volume; }
    WriteGate& gate() const { return file_->gate; }

private:
    FuseState* state_;
    FuseFile* file_;
};

// Fill in their part of the table: fuse_files.cc, fuse_io.cc.
void add_file_operations(fuse_lowlevel_ops& operations);
void add_io_operations(fuse_lowlevel_ops& operations);

}  // namespace uc::frontend
