// A path for a socket in a directory of its own; both are removed at the end.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "base/check.h"

namespace uc::frontend {

class SocketPath {
public:
    SocketPath() {
        CHECK(::mkdtemp(dir_.data()) != nullptr);
        text_ = dir_ + "/socket";
    }
    SocketPath(const SocketPath&) = delete;
    SocketPath& operator=(const SocketPath&) = delete;
    ~SocketPath() {
        ::unlink(text_.c_str());
        ::rmdir(dir_.c_str());
    }
    const std::string& text() const { return text_; }

private:
    std::string dir_ = "/tmp/ubcache-nbd-XXXXXX";
    std::string text_;
};

}  // namespace uc::frontend
