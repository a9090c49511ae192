// One program under several names: the name it was called by, or the first argument, says what to
// do.
#include <cstring>
#include <string_view>

#include "admin/command_line.h"
#include "admin/make_command.h"
#include "admin/show_command.h"
#include "admin/standard_streams.h"

namespace {

int run(std::string_view name, int argc, char** argv) {
    if (name == "make-bcache") return uc::admin::make_command(argc, argv, true);
    if (name == "bcache-super-show") return uc::admin::super_show_command(argc, argv);
    if (argc > 1 && std::strcmp(argv[1], "make") == 0) {
        return uc::admin::make_command(argc - 1, argv + 1, false);
    }
    return uc::admin::command_line(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
    uc::admin::occupy_standard_streams();
    std::string_view name = argc > 0 ? argv[0] : "ubcache";
    name = name.substr(name.rfind('/') + 1);
    return uc::admin::finish_output(name, run(name, argc, argv));
}
