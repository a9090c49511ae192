// Errors that come from the world: I/O, bad bytes, bad arguments, no space. Broken invariants of
// our own are CHECKs (base/check.h).
#pragma once

#include <cstdint>
#include <tl/expected.hpp>
#include <utility>

namespace uc {

enum class Errc : std::uint8_t {
    io,           // a device reported an error; `sys` holds the errno
    gone,         // the device or the set is no longer usable
    corrupt,      // bytes on a device fail validation
    unsupported,  // valid, but a feature that is not implemented
    invalid,      // an argument out of its range
    no_space,     // no bucket, slot or table entry
    busy,         // somebody else holds it
    read_only,    // a write to something opened for reading
    not_found,    // no such device, volume, uuid
    stopped,      // the set or volume is stopping
    data_lost,    // dirty data cannot be read; backing holds older data and is not served
};

// Cheap to copy; `what` is a string literal.
struct Error {
    Errc code = Errc::io;
    int sys = 0;
    const char* what = "";
};

template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(Errc code, const char* what, int sys = 0) {
    return tl::unexpected<Error>(Error{code, sys, what});
}

const char* name_of(Errc code);

}  // namespace uc

#define UC_JOIN2(a, b) a##b
#define UC_JOIN(a, b) UC_JOIN2(a, b)

// Unwrap or return the error. Several statements: always on its own line inside braces.
#define TRY(decl, expr) TRY_(UC_JOIN(try_, __COUNTER__), decl, expr)
#define TRY_(tmp, decl, expr)               \
    auto tmp = (expr);                      \
    if (!tmp) [[unlikely]]                  \
        return tl::unexpected(tmp.error()); \
    decl = std::move(*tmp)
#define TRY_OK(expr) TRY_OK_(UC_JOIN(try_, __COUNTER__), expr)
#define TRY_OK_(tmp, expr) \
    auto tmp = (expr);     \
    if (!tmp) [[unlikely]] \
    return tl::unexpected(tmp.error())

// The same inside a coroutine.
#define CO_TRY(decl, expr) CO_TRY_(UC_JOIN(try_, __COUNTER__), decl, expr)
#define CO_TRY_(tmp, decl, expr)               \
    auto tmp = (expr);                         \
    if (!tmp) [[unlikely]]                     \
        co_return tl::unexpected(tmp.error()); \
    decl = std::move(*tmp)
#define CO_OK(expr) CO_OK_(UC_JOIN(try_, __COUNTER__), expr)
#define CO_OK_(tmp, expr)  \
    auto tmp = (expr);     \
    if (!tmp) [[unlikely]] \
    co_return tl::unexpected(tmp.error())
