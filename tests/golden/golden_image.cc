#include "golden_image.h"

#include <algorithm>
#include <cstdlib>

namespace uc::golden {

namespace fs = std::filesystem;

std::vector<std::string> set_names() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(UC_GOLDEN_DIR)) {
        if (entry.is_directory()) names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
}

fs::path set_directory(const std::string& set) {
    return fs::path(UC_GOLDEN_DIR) / set;
}

std::vector<fs::path> images_of(const std::string& set) {
    std::vector<fs::path> images;
    for (const auto& entry : fs::directory_iterator(set_directory(set))) {
        if (entry.path().string().ends_with(".img.zst")) images.push_back(entry.path());
    }
    std::sort(images.begin(), images.end());
    return images;
}

bool can_unpack() {
    return std::system("zstd --version >/dev/null 2>&1") == 0;
}

Image::Image(const fs::path& compressed) {
    std::string pattern = (fs::temp_directory_path() / "uc-golden-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) return;
    directory_ = pattern;
    const fs::path unpacked = directory_ / compressed.stem();
    const std::string command = "zstd -q -d --sparse --long=26 '" + compressed.string() + "' -o '" +
                                unpacked.string() + "'";
    if (std::system(command.c_str()) != 0) return;
    file_.open(unpacked, std::ios::binary);
    sectors_ = fs::file_size(unpacked) / 512;
}

Image::~Image() {
    std::error_code ignored;
    if (!directory_.empty()) fs::remove_all(directory_, ignored);
}

std::vector<std::byte> Image::read(std::uint64_t sector, std::uint64_t count) {
    std::vector<std::byte> bytes(count * 512);
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(sector * 512));
    file_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(file_.gcount(), 0)));
    return bytes;
}

}  // namespace uc::golden
