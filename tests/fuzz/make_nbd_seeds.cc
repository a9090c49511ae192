// Writes the starting inputs of fuzz_nbd to the given directory: what a decent client sends.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "frontend/nbd_protocol.h"

namespace uc::frontend::nbd {
namespace {

class SeedWriter {
public:
    explicit SeedWriter(std::filesystem::path directory) : directory_(std::move(directory)) {
        std::filesystem::create_directories(directory_);
    }
    void write(const Bytes& bytes) {
        std::ofstream file(directory_ / std::to_string(count_++), std::ios::binary);
        file.write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
    }

private:
    std::filesystem::path directory_;
    unsigned count_ = 0;
};

void append_counted(Bytes& out, std::string_view text) {
    append(out, Be<std::uint32_t>(static_cast<std::uint32_t>(text.size())));
    append_text(out, text);
}

// Alone and after its header.
void write_option(SeedWriter& seeds, std::uint32_t option, const Bytes& payload) {
    seeds.write(payload);
    Bytes whole;
    append(whole, OptionHeader{kOptionMagic, option, static_cast<std::uint32_t>(payload.size())});
    whole.insert(whole.end(), payload.begin(), payload.end());
    seeds.write(whole);
}

void write_options(SeedWriter& seeds) {
    Bytes flags;
    append(flags, Be<std::uint32_t>(std::uint32_t{kFixedNewstyle | kNoZeroes}));
    seeds.write(flags);
    Bytes info;
    append_counted(info, "volume");
    append(info, Be<std::uint16_t>(2));
    for (const Info each : {Info::name, Info::description}) {
        append(info, Be<std::uint16_t>(static_cast<std::uint16_t>(each)));
    }
    write_option(seeds, opt::go, info);
    Bytes meta;
    append_counted(meta, "volume");
    append(meta, Be<std::uint32_t>(2));
    append_counted(meta, "base:allocation");
    append_counted(meta, "");
    write_option(seeds, opt::set_meta_context, meta);
}

void write_requests(SeedWriter& seeds) {
    constexpr std::uint64_t kAnyReplyWritable = 2;
    for (const Command command : {Command::read, Command::write, Command::flush, Command::trim,
                                  Command::write_zeroes, Command::disc}) {
        const std::uint32_t length = command == Command::flush ? 0 : 4096;
        Bytes request;
        append(request,
               RequestHeader{kRequestMagic, std::uint16_t{0}, static_cast<std::uint16_t>(command),
                             kAnyReplyWritable, std::uint64_t{length} * 3, length});
        seeds.write(request);
    }
}

}  // namespace
}  // namespace uc::frontend::nbd

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: make_nbd_seeds DIRECTORY\n");
        return 1;
    }
    uc::frontend::nbd::SeedWriter seeds(argv[1]);
    uc::frontend::nbd::write_options(seeds);
    uc::frontend::nbd::write_requests(seeds);
    return 0;
}
