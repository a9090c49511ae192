// What every front end serves: a volume under a name.
#pragma once

#include <string>

#include "core/volume.h"

namespace uc::frontend {

struct Export {
    std::string name;
    core::Volume* volume =
        nullptr;  // outlives its use: see the front end's set_...() for when it ends
    std::string description;
    std::string uuid = {};   // of the volume, as text
    std::string label = {};  // may be empty
};

}  // namespace uc::frontend
