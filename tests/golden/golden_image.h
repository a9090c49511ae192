// The golden sets on disk: unpacks them for a test and reads from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace uc::golden {

// Names of all sets, sorted.
std::vector<std::string> set_names();
std::filesystem::path set_directory(const std::string& set);
// Compressed images of a set, sorted.
std::vector<std::filesystem::path> images_of(const std::string& set);
bool can_unpack();

// An unpacked image; the file goes with the object.
class Image {
public:
    explicit Image(const std::filesystem::path& compressed);
    ~Image();
    Image(const Image&) = delete;
    Image& operator=(const Image&) = delete;

    bool is_open() const { return file_.is_open(); }
    std::uint64_t sectors() const { return sectors_; }
    // Short if the image ends before.
    std::vector<std::byte> read(std::uint64_t sector, std::uint64_t count);

private:
    std::filesystem::path directory_;
    std::ifstream file_;
    std::uint64_t sectors_ = 0;
};

}  // namespace uc::golden
