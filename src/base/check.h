// CHECK: an invariant of our own. On in every build; prints and aborts. Never for bytes read from a
// device and never for arguments of a user.
#pragma once

namespace uc {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}

#define CHECK(cond) ((cond) ? static_cast<void>(0) : ::uc::check_failed(#cond, __FILE__, __LINE__))

#ifdef NDEBUG
#define DCHECK(cond) static_cast<void>(sizeof(!(cond)))
#else
#define DCHECK(cond) CHECK(cond)
#endif
