#include "golden_set.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "golden_image.h"
#include "ondisk/superblock.h"
#include "sim/sha256.h"

namespace uc::golden {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string text_of(const json& object, const char* name) {
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? std::string() : found->get<std::string>();
}

std::string uuid_on(const fs::path& image) {
    const FileBytes file(image);
    std::vector<std::byte> bytes(ondisk::kSuperblockBytes);
    file.read(ondisk::kSuperblockSector * kSectorBytes, bytes);
    return ondisk::parse_superblock(bytes).uuid.to_string();
}

}  // namespace

GoldenSet::GoldenSet(const std::string& name) {
    std::string pattern = (fs::temp_directory_path() / "uc-golden-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
        problem_ = "no temporary directory";
        return;
    }
    directory_ = pattern;
    read_manifest(name);
}

GoldenSet::~GoldenSet() {
    std::error_code ignored;
    if (!directory_.empty()) fs::remove_all(directory_, ignored);
}

bool GoldenSet::unpack(const std::string& set, const std::string& file) {
    const fs::path packed = set_directory(set) / (file + ".zst");
    const std::string command = "zstd -q -d --sparse --long=26 '" + packed.string() + "' -o '" +
                                (directory_ / file).string() + "'";
    if (std::system(command.c_str()) == 0) return true;
    problem_ = "cannot unpack " + packed.string();
    return false;
}

void GoldenSet::read_manifest(const std::string& set) {
    std::ifstream in(set_directory(set) / "manifest.json");
    const json manifest = json::parse(in, nullptr, false);
    if (manifest.is_discarded()) {
        problem_ = "no manifest";
        return;
    }
    for (const json& disk : manifest["disks"]) {
        const std::string role = disk["role"];
        if (role == "md member") continue;
        const std::string file = disk["file"];
        if (!unpack(set, file)) return;
        disks_.push_back({directory_ / file, disk["sha256"], role != "cache"});
    }
    if (manifest["tree_depth"].is_string()) {
        tree_depth_ = std::stoi(manifest["tree_depth"].get<std::string>());
    }
    const std::string line = manifest["dmesg_when_registered_again"][0];
    replay_ = line.substr(line.find("journal replay done"));
    for (const auto& [name, facts] : manifest["devices"].items()) {
        LogicalDevice device{name,
                             facts["size"],
                             facts["sha256"],
                             text_of(facts, "backing_uuid"),
                             text_of(facts, "state"),
                             text_of(facts, "cache_mode"),
                             text_of(facts, "label"),
                             text_of(facts, "dirty_data_before_stop"),
                             {}};
        for (const DiskImage& disk : disks_) {
            if (disk.backing && uuid_on(disk.path) == device.uuid) device.image = disk.path;
        }
        devices_.push_back(std::move(device));
    }
}

std::string GoldenSet::changed() const {
    std::string names;
    for (const DiskImage& disk : disks_) {
        if (sha256_of(disk.path) != disk.sha256) names += disk.path.filename().string() + " ";
    }
    return names;
}

std::string sha256_of(const fs::path& path, std::uint64_t offset) {
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    std::vector<char> piece(1 << 20);
    sim::Sha256 sum;
    while (file) {
        file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
        const std::span<const char> got(piece.data(), static_cast<std::size_t>(file.gcount()));
        sum.add(std::as_bytes(got));
    }
    return file.eof() ? sum.finish() : std::string();
}

FileBytes::FileBytes(const fs::path& path)
    : file_(path, std::ios::binary | std::ios::in | std::ios::out), bytes_(fs::file_size(path)) {}

bool FileBytes::read(std::uint64_t offset, std::span<std::byte> out) const {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    file_.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
    return file_.good();
}

bool FileBytes::write(std::uint64_t offset, std::span<const std::byte> in) {
    file_.clear();
    file_.seekp(static_cast<std::streamoff>(offset));
    file_.write(reinterpret_cast<const char*>(in.data()), static_cast<std::streamsize>(in.size()));
    file_.flush();
    return file_.good();
}

}  // namespace uc::golden
