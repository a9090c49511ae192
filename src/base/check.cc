#include "base/check.h"

#include <cstdio>
#include <cstdlib>

#include "base/result.h"

namespace uc {

void check_failed(const char* condition, const char* file, int line) {
    std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, condition);
    std::abort();
}

const char* name_of(Errc code) {
    switch (code) {
        case Errc::io:
            return "I/O error";
        case Errc::gone:
            return "device gone";
        case Errc::corrupt:
            return "corrupt";
        case Errc::unsupported:
            return "not supported";
        case Errc::invalid:
            return "invalid argument";
        case Errc::no_space:
            return "no space";
        case Errc::busy:
            return "busy";
        case Errc::read_only:
            return "read-only";
        case Errc::not_found:
            return "not found";
        case Errc::stopped:
            return "stopped";
        case Errc::data_lost:
            return "dirty data unreadable";
    }
    return "unknown error";
}

}  // namespace uc
