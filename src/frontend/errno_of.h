// What front ends that answer with an errno say of an error.
#pragma once

#include <cerrno>

#include "base/result.h"

namespace uc::frontend {

inline int errno_of(const Error& error) {
    switch (error.code) {
        case Errc::invalid:
            return EINVAL;
        case Errc::no_space:
            return ENOSPC;
        case Errc::read_only:
            return EROFS;
        case Errc::unsupported:
            return EOPNOTSUPP;
        case Errc::stopped:
            return ESHUTDOWN;
        default:
            return EIO;
    }
}

}  // namespace uc::frontend
