// The last words of a command that ends without success: one line on standard error, in one form
// for all commands: "ubcache COMMAND: TEXT", or "ubcache: TEXT" before there is a command.
#pragma once

#include <string>

namespace uc::admin {

// Each prints the line and returns the exit status that goes with it. Line breaks in `text` become
// blanks.
int complain(const std::string& command, const std::string& text);           // refused or failed: 1
int complain_of_usage(const std::string& command, const std::string& text);  // wrong words: 2

}  // namespace uc::admin
