// What a program owes to standard input, output and error at its begin and end.
#pragma once

#include <string_view>

namespace uc::admin {

// Call first. A program started with one of them closed would get its number for the first file
// that it opens, and what it then prints would go into a user's device.
void occupy_standard_streams();

// Call last: writes out what was printed. If any of it could not be written, says so on standard
// error and turns success into failure. Returns the exit status.
int finish_output(std::string_view program, int status);

}  // namespace uc::admin
