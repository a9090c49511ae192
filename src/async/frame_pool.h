// Coroutine frames come from free lists by size class: no malloc in steady state. One pool per
// thread. Off under the address sanitizer, so that it sees each use after free.
#pragma once

#include <cstddef>

namespace uc::async {
void* allocate_frame(std::size_t bytes);
void free_frame(void* frame, std::size_t bytes);
}  // namespace uc::async
