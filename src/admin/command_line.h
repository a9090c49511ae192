// The sub-commands of `ubcache` other than `make`.
#pragma once

namespace uc::admin {

// Returns the exit status: 0, 1 (refused or failed), 2 (wrong usage).
int command_line(int argc, char** argv);

}  // namespace uc::admin
