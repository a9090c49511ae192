// A golden set unpacked for a test: its images as files, and what its manifest says about them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "sim/disk_checker.h"

namespace uc::golden {

// One logical device, as the kernel showed it when it registered the set again.
struct LogicalDevice {
    std::string name;  // "back0", "flash0"
    std::uint64_t bytes = 0;
    std::string sha256;
    std::string uuid;   // of the backing device; empty for flash-only volumes
    std::string state;  // the kernel's sysfs word; likewise mode, label
    std::string cache_mode;
    std::string label;
    std::string dirty_data;  // at a clean stop, in the kernel's "h" format; empty if not known
    std::filesystem::path image;

    bool flash_only() const { return uuid.empty(); }
};

struct DiskImage {
    std::filesystem::path path;
    std::string sha256;  // of the image as it was unpacked
    bool backing = false;
};

class GoldenSet {
public:
    explicit GoldenSet(const std::string& name);
    ~GoldenSet();
    GoldenSet(const GoldenSet&) = delete;
    GoldenSet& operator=(const GoldenSet&) = delete;

    // Empty, or why it could not be unpacked.
    const std::string& problem() const { return problem_; }
    const std::filesystem::path& cache() const { return disks_.front().path; }
    const std::vector<DiskImage>& disks() const { return disks_; }  // the cache first
    const std::vector<LogicalDevice>& devices() const { return devices_; }
    int tree_depth() const { return tree_depth_; }  // -1: not known
    // "journal replay done, ..." of the kernel's log.
    const std::string& replay() const { return replay_; }
    // The images that are not byte for byte what they were; empty: none changed.
    std::string changed() const;

private:
    bool unpack(const std::string& set, const std::string& file);
    void read_manifest(const std::string& set);

    std::filesystem::path directory_;
    std::string problem_;
    std::vector<DiskImage> disks_;
    std::vector<LogicalDevice> devices_;
    int tree_depth_ = -1;
    std::string replay_;
};

// SHA-256 of a file from `offset` to its end; empty if it cannot be read.
std::string sha256_of(const std::filesystem::path& path, std::uint64_t offset = 0);

// An image for the independent reader.
class FileBytes final : public sim::ByteSource {
public:
    explicit FileBytes(const std::filesystem::path& path);
    bool read(std::uint64_t offset, std::span<std::byte> out) const override;
    std::uint64_t bytes() const override { return bytes_; }
    bool write(std::uint64_t offset, std::span<const std::byte> in);

private:
    mutable std::fstream file_;
    std::uint64_t bytes_ = 0;
};

}  // namespace uc::golden
