// `ubcache make` and `make-bcache`.
#pragma once

namespace uc::admin {

// `classic`: behave like make-bcache of bcache-tools 1.0.8 in output, messages and exit status.
// Returns the exit status.
int make_command(int argc, char** argv, bool classic);

}  // namespace uc::admin
