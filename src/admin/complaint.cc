#include "admin/complaint.h"

#include <algorithm>
#include <cstdio>

namespace uc::admin {

namespace {
void print(const std::string& command, const std::string& text) {
    std::string line = "ubcache" + (command.empty() ? command : " " + command) + ": " + text;
    std::replace(line.begin(), line.end(), '\n', ' ');
    std::fprintf(stderr, "%s\n", line.c_str());
}
}  // namespace

int complain(const std::string& command, const std::string& text) {
    print(command, text);
    return 1;
}

int complain_of_usage(const std::string& command, const std::string& text) {
    print(command, text);
    return 2;
}

}  // namespace uc::admin
