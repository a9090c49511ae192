// The name space: one directory of regular files. Everything here is answered at once from memory.
//
// Sizes are fixed and the files are opened for direct I/O, so the kernel keeps no pages of them:
// what is written through a file, through NBD or through ublk is seen at once through the others.
#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "frontend/fuse_state.h"

namespace uc::frontend {

namespace {

constexpr double kAttributeSeconds = 1.0;
constexpr std::uint64_t kStatBlock = 4096;

FuseState& state_of(fuse_req_t request) {
    return *static_cast<FuseState*>(fuse_req_userdata(request));
}

struct stat attributes_of_root() {
    struct stat out {};
    out.st_ino = FUSE_ROOT_ID;
    out.st_mode = S_IFDIR | 0700;
    out.st_nlink = 2;
    out.st_uid = ::geteuid();
    out.st_gid = ::getegid();
    return out;
}

struct stat attributes_of(const FuseFile& file) {
    struct stat out {};
    out.st_ino = file.ino;
    out.st_mode = S_IFREG | (file.volume->read_only() ? 0400 : 0600);
    out.st_nlink = 1;
    out.st_uid = ::geteuid();
    out.st_gid = ::getegid();
    out.st_size = static_cast<off_t>(file.bytes());
    out.st_blocks = static_cast<blkcnt_t>(file.volume->size_sectors());
    out.st_blksize = static_cast<blksize_t>(
        std::max<std::uint64_t>(kStatBlock, file.volume->block_sectors() * kSectorBytes));
    return out;
}

void reply_attributes(fuse_req_t request, fuse_ino_t ino) {
    const FuseFile* const file = state_of(request).find(ino);
    if (ino != FUSE_ROOT_ID && file == nullptr) {
        fuse_reply_err(request, ESTALE);
        return;
    }
    const struct stat out = file == nullptr ? attributes_of_root() : attributes_of(*file);
    fuse_reply_attr(request, &out, kAttributeSeconds);
}

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
    const FuseFile* const file =
        parent == FUSE_ROOT_ID ? state_of(request).find(std::string(name)) : nullptr;
    if (file == nullptr) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    fuse_entry_param entry{};
    entry.ino = file->ino;
    entry.attr = attributes_of(*file);
    entry.attr_timeout = kAttributeSeconds;
    entry.entry_timeout = kAttributeSeconds;
    fuse_reply_entry(request, &entry);
}

void on_getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
    reply_attributes(request, ino);
}

// The size is the volume's, owner and mode are ours; times are not kept, so setting them is no
// error.
void on_setattr(fuse_req_t request, fuse_ino_t ino, struct stat* wanted, int what,
                fuse_file_info*) {
    const FuseFile* const file = state_of(request).find(ino);
    const bool resizes = (what & FUSE_SET_ATTR_SIZE) != 0 &&
                         (file == nullptr || wanted->st_size != static_cast<off_t>(file->bytes()));
    const bool reowns = (what & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0;
    if (resizes || reowns) {
        fuse_reply_err(request, EPERM);
        return;
    }
    reply_attributes(request, ino);
}

void on_readdir(fuse_req_t request, fuse_ino_t ino, std::size_t size, off_t from, fuse_file_info*) {
    FuseState& state = state_of(request);
    if (ino != FUSE_ROOT_ID) {
        fuse_reply_err(request, ENOTDIR);
        return;
    }
    // Positions: 0 ".", 1 "..", then the files; an entry carries the position after it.
    std::vector<char> out(std::min(size, FuseState::kMaxTransfer));
    std::size_t used = 0;
    const std::size_t end = state.files.size() + 2;
    for (auto at = static_cast<std::size_t>(from); at < end; ++at) {
        const FuseFile* const file = at < 2 ? nullptr : state.files[at - 2].get();
        if (file != nullptr && file->gone) continue;
        const struct stat info = file == nullptr ? attributes_of_root() : attributes_of(*file);
        const char* const name = file != nullptr ? file->name.c_str() : at == 0 ? "." : "..";
        const std::size_t needed = fuse_add_direntry(request, out.data() + used, out.size() - used,
                                                     name, &info, static_cast<off_t>(at + 1));
        if (needed > out.size() - used) break;
        used += needed;
    }
    fuse_reply_buf(request, out.data(), used);
}

// Written as the kernel's structure, because this libfuse has no field for parallel writes: without
// that flag the kernel takes the inode's lock for each write, and a queue depth above 1 is lost.
void on_open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
    const FuseFile* const file = state_of(request).find(ino);
    if (file == nullptr) {
        fuse_reply_err(request, ino == FUSE_ROOT_ID ? EISDIR : ESTALE);
        return;
    }
    if ((info->flags & O_ACCMODE) != O_RDONLY && file->volume->read_only()) {
        fuse_reply_err(request, EROFS);
        return;
    }
    fuse_open_out out{};
    out.open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
    fuse_reply_buf(request, reinterpret_cast<const char*>(&out), sizeof out);
}

void on_release(fuse_req_t request, fuse_ino_t, fuse_file_info*) {
    fuse_reply_err(request, 0);
}

void on_statfs(fuse_req_t request, fuse_ino_t) {
    struct statvfs out {};
    out.f_bsize = kStatBlock;
    out.f_frsize = kStatBlock;
    out.f_namemax = NAME_MAX;
    for (const auto& file : state_of(request).files) {
        if (file->gone) continue;
        out.f_blocks += file->bytes() / kStatBlock;
        ++out.f_files;
    }
    fuse_reply_statfs(request, &out);
}

void on_init(void*, fuse_conn_info* connection) {
    // Splicing would hand us pipes instead of the aligned buffers that a device wants.
    const unsigned unwanted = FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
                              FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_ATOMIC_O_TRUNC;
    connection->want &= ~unwanted;
    connection->want |= connection->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO);
    connection->max_write = FuseState::kMaxTransfer;
    connection->max_background = 256;
    connection->congestion_threshold = 192;
}

}  // namespace

void add_file_operations(fuse_lowlevel_ops& operations) {
    operations.init = on_init;
    operations.lookup = on_lookup;
    operations.getattr = on_getattr;
    operations.setattr = on_setattr;
    operations.readdir = on_readdir;
    operations.open = on_open;
    operations.release = on_release;
    operations.statfs = on_statfs;
}

}  // namespace uc::frontend
