// `ubcache show` and `bcache-super-show`.
#pragma once

#include <string>
#include <vector>

namespace uc::admin {

// As bcache-super-show of bcache-tools 1.0.8; returns the exit status.
int super_show_command(int argc, char** argv);

// The same text for several devices, with the device's name before it and what is wrong after it;
// or all fields as JSON. Exit status 1 if one of them is not a sound superblock.
int show_command(const std::vector<std::string>& devices, bool json);

}  // namespace uc::admin
