// A cache set in service: its devices, the set, and the front ends that show its volumes under
// names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "admin/attributes.h"
#include "admin/device_identity.h"
#include "admin/front_ends.h"
#include "admin/outcome.h"
#include "async/task.h"
#include "core/steady_set.h"
#include "frontend/export.h"
#include "io/file_device.h"
#include "io/uring_reactor.h"

namespace uc::admin {

// An attribute to be set when its owner comes into service.
struct SetOption {
    std::string origin;  // for messages: where somebody asked for it
    std::string name;
    std::string value;
    bool of_volume = false;  // one of volumes, even if the set has one of that name
    std::string volume;      // name or uuid; empty: all
};

struct ServeOptions {
    std::string cache;
    std::vector<std::string> backings;
    FrontEndOptions front_ends;
    std::string control;
    bool read_only = false;
    bool attach = false;  // attach backing devices that do not belong to the set
    // Serve the backing devices though their cache device is missing; `cache` is empty then.
    bool without_cache = false;
    // The set whose members `ubcache assemble` notes in this directory, also while it is served;
    // none: the members are those named above, and no others.
    std::optional<ondisk::Uuid> assembled;
    std::string run_directory;
    std::uint32_t wait_s = 30;           // for members of it to appear, before it counts as started
    std::vector<SetOption> set_options;  // in this order
    std::vector<std::string> own_mounts;  // what this daemon serves: absolute, without links
};

// A volume under the name that front ends and people use.
struct ServedVolume {
    std::string name;
    core::SetVolume* volume = nullptr;
};

class ServedSet {
public:
    // Environment, reactor and options outlive it. `print` gets lines on what happens while it
    // runs.
    ServedSet(core::Env env, io::UringReactor& reactor, const ServeOptions& options,
              FrontEnds::Log print);
    ServedSet(const ServedSet&) = delete;
    ServedSet& operator=(const ServedSet&) = delete;

    // Opens everything and starts the front ends. After an error stop() must still be called.
    Task<Outcome<>> open();
    // Front ends first, then the set. Dirty data stays in the cache. Requests that are under way in
    // the set fail with Errc::stopped; they must have ended before this object is destroyed.
    Task<Outcome<>> stop();
    bool stopping() const { return stopping_; }
    // stop() then also writes back what the last requests have made dirty.
    void write_back_at_end() { write_back_at_end_ = true; }

    // Both return the new volume's name.
    Task<Outcome<std::string>> attach(std::string path);
    // Of a member of the set that has appeared; one that runs without a cache is not attached.
    Task<Outcome<std::string>> join(std::string path);
    Task<Outcome<std::string>> create_volume(std::uint64_t bytes, std::string label);
    // Of some volume, which clients may now ask for by the new one.
    void label_changed();

    // Null before open().
    core::CacheSet* set() const { return set_.get(); }
    const std::vector<ServedVolume>& volumes() const { return volumes_; }
    // By name, path of the backing device, or uuid; null if there is none.
    const ServedVolume* find(const std::string& name) const;
    // Where clients find a volume; empty if that front end is not in use.
    std::string nbd_uri(const ServedVolume& volume) const;
    std::string file_path(const ServedVolume& volume) const;
    std::string block_path(const ServedVolume& volume) const;
    bool read_only() const { return options_.read_only; }
    // Before open(); outlives it.
    void set_host(AttributeHost& host) { host_ = &host; }
    // For attributes of a volume, or (null) of the set and its cache device.
    AttributeTarget target(core::SetVolume* volume) const { return {set_.get(), volume, host_}; }
    // One line per backing device that is not here and of which the cache has dirty data.
    std::vector<std::string> missing_device_notes() const;
    // What recovery had to say, and what happened since.
    const std::vector<std::string>& notes() const { return notes_; }

private:
    Task<Outcome<>> write_back_rest();
    Outcome<> check_arrival(const std::string& path) const;
    Task<Result<core::SteadySet::Device>> find_device(const ondisk::Superblock& wanted,
                                                      const std::string& name);
    Outcome<> check_devices();
    Task<Outcome<std::shared_ptr<io::BlockDevice>>> open_cache();
    Task<Outcome<std::string>> add_backing(std::string path, core::AttachMode mode);
    Outcome<> check_set_options();
    Task<Outcome<>> apply_set_options(core::SetVolume* volume);
    Task<Outcome<std::string>> reattach(const ServedVolume& served);
    void publish(core::SetVolume* volume);
    std::string export_name(const core::SetVolume& volume) const;
    std::vector<frontend::Export> exports() const;
    void log(const std::string& line);

    core::Env env_;
    io::UringReactor& reactor_;
    const ServeOptions& options_;
    AttributeHost* host_ = nullptr;
    KnownDevices devices_;
    std::unique_ptr<core::SteadySet> set_;
    std::vector<ServedVolume> volumes_;
    FrontEnds::Log print_;
    FrontEnds front_ends_;
    std::vector<std::string> notes_;
    struct CheckedOption {
        const SetOption* option = nullptr;
        const Attribute* attribute = nullptr;
        AttributeValue value;
    };
    std::vector<CheckedOption> set_options_;
    bool opened_ = false;
    bool stopping_ = false;
    bool write_back_at_end_ = false;
};

}  // namespace uc::admin
