// What a process needs that other processes' I/O goes through: it must not wait for memory that
// only its own I/O could free.
#pragma once

#include <string>

namespace uc::admin {

// Locks the process's memory, now and in future, and tells the kernel that this process writes out
// pages (PR_SET_IO_FLUSHER), so that memory which the kernel needs for it does not wait for such
// writes. Call before threads and large allocations. Empty, or one line on what the kernel
// refused and how to permit it: the process works without it, unless memory becomes short.
std::string join_io_path();

}  // namespace uc::admin
