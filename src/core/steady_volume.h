// A volume as users hold it: the same object before and after its set was opened anew.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/cached_volume.h"
#include "core/range_set.h"
#include "io/switch_device.h"

namespace uc::core {

class SteadySet;

class SteadyVolume final : public SetVolume {
public:
    // `device` is null for a flash-only volume.
    SteadyVolume(SteadySet& set, SetVolume& volume, std::unique_ptr<io::SwitchDevice> device)
        : set_(set),
          now_(&volume),
          device_(std::move(device)),
          name_(volume.name()),
          joined_(volume.attached()) {}

    Task<Result<void>> read(std::uint64_t sector, std::span<std::byte> out) override;
    Task<Result<void>> write(std::uint64_t sector, std::span<const std::byte> in,
                             WriteFlags flags) override;
    Task<Result<void>> flush() override;
    Task<Result<void>> discard(std::uint64_t sector, std::uint64_t sectors) override;
    Task<Result<void>> write_zeroes(std::uint64_t sector, std::uint64_t sectors,
                                    WriteFlags flags) override;

    std::uint64_t size_sectors() const override { return now_->size_sectors(); }
    std::uint32_t block_sectors() const override { return now_->block_sectors(); }
    bool read_only() const override { return now_->read_only(); }
    const std::string& name() const override { return name_; }

    Inode inode() const override { return now_->inode(); }
    const ondisk::Uuid& uuid() const override { return now_->uuid(); }
    bool flash_only() const override { return now_->flash_only(); }
    bool attached() const override { return now_->attached(); }
    ondisk::BackingState state() const override { return now_->state(); }
    ondisk::CacheMode cache_mode() const override { return now_->cache_mode(); }
    const std::string& backing_name() const override { return now_->backing_name(); }
    std::string label() const override { return now_->label(); }
    std::uint64_t dirty_sectors() const override { return now_->dirty_sectors(); }
    const VolumeStats& stats() const override { return now_->stats(); }
    VolumeOptions& options() override { return now_->options(); }
    void options_changed() override { now_->options_changed(); }
    Task<Result<void>> set_cache_mode(ondisk::CacheMode mode) override {
        return now_->set_cache_mode(mode);
    }
    Task<Result<void>> set_label(std::string label) override {
        return now_->set_label(std::move(label));
    }
    Task<Result<void>> write_back_all() override { return now_->write_back_all(); }
    std::string writeback_trouble() const override { return now_->writeback_trouble(); }
    void pause_dirtying() override;
    void resume_dirtying() override;

private:
    friend class SteadySet;
    enum class Kind : std::uint8_t { read, write, flush };

    // Does what `start` begins on the set in service, again if that is replaced meanwhile.
    template <class Start>
    Task<Result<void>> persist(Kind kind, std::uint64_t from, std::uint64_t to, Start start);
    // What an error of the request comes to; nothing: it was none.
    Result<void> judge(Kind kind, std::uint64_t from, std::uint64_t to, std::uint64_t tellings);

    SteadySet& set_;
    SetVolume* now_;
    std::unique_ptr<io::SwitchDevice> device_;
    std::string name_;
    bool joined_;  // is or ought to be attached
    std::uint32_t pauses_ = 0;
    RangeSet lost_;  // sectors of the volume: written, never flushed, gone
    bool tell_loss_ = false;
    std::uint64_t tellings_ = 0;  // flushes that had to tell; what was under way then fails, too
    // The backing device does not answer.
    bool away_ = false;
    bool suspected_ = false;  // is being asked
    Instant away_since_{};
    std::string away_why_;
};

}  // namespace uc::core
