// The engine on real files, for tests: one set at a time, its calls run to their end.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cache_set.h"
#include "io/buffer.h"
#include "io/file_device.h"
#include "io/uring_reactor.h"
#include "sim/sha256.h"

namespace uc::golden {

template <class T>
Task<void> keep_result(Task<T> task, std::optional<T>& out) {
    T result = co_await std::move(task);
    out.emplace(std::move(result));
}

// SHA-256 of what the volume holds, or what went wrong.
inline Task<std::string> content_sha256(core::Volume& volume, io::Buffer& buffer) {
    const std::uint64_t step = buffer.size() / kSectorBytes;
    sim::Sha256 sum;
    for (std::uint64_t at = 0; at < volume.size_sectors(); at += step) {
        const std::uint64_t sectors = std::min(step, volume.size_sectors() - at);
        const std::span<std::byte> piece = buffer.span().first(sectors * kSectorBytes);
        const Result<void> read = co_await volume.read(at, piece);
        if (!read) co_return std::string("read error: ") + read.error().what;
        sum.add(piece);
    }
    co_return sum.finish();
}

class EngineWorld {
public:
    EngineWorld() : rng_(1) {
        auto reactor = io::UringReactor::create(executor_, 256);
        if (reactor) reactor_ = std::move(*reactor);
    }
    ~EngineWorld() {
        if (set_) close();
        devices_.clear();
    }
    EngineWorld(const EngineWorld&) = delete;
    EngineWorld& operator=(const EngineWorld&) = delete;

    bool usable() const { return reactor_ != nullptr; }
    core::CacheSet& set() { return *set_; }
    const core::Report& report() const { return report_; }

    template <class T>
    T run(Task<T> task) {
        std::optional<T> result;
        executor_.spawn(keep_result(std::move(task), result));
        while (!result) reactor_->turn(true);
        return std::move(*result);
    }

    io::FileDevice* device(const std::string& path, bool read_only) {
        io::OpenOptions options;
        options.read_only = read_only;
        auto opened = io::FileDevice::open(*reactor_, path, options);
        EXPECT_TRUE(opened) << path;
        if (!opened) return nullptr;
        devices_.push_back(std::move(*opened));
        return devices_.back().get();
    }

    Result<void> open(io::BlockDevice& cache, const core::SetOptions& options) {
        report_ = core::Report();
        const core::Env env{executor_, *reactor_, rng_};
        auto opened = run(core::CacheSet::open(env, cache, options, report_));
        if (!opened) return tl::unexpected(opened.error());
        set_ = std::move(*opened);
        return {};
    }
    Result<void> open(const std::string& cache, bool read_only = false) {
        io::FileDevice* const file = device(cache, read_only);
        if (file == nullptr) return fail(Errc::not_found, "no such image");
        core::SetOptions options;
        options.read_only = read_only;
        const Result<void> opened = open(*file, options);
        if (!opened) devices_.clear();
        return opened;
    }

    // Write-back is held, but what it began while the device was added goes on.
    Result<core::SetVolume*> add(io::BlockDevice& backing,
                                 core::AttachMode mode = core::AttachMode::known) {
        auto added = run(set_->add_backing(backing, mode, report_));
        if (added) {
            (*added)->options().writeback_running = false;
            (*added)->options_changed();
        }
        return added;
    }
    Result<core::SetVolume*> add(const std::string& backing, bool read_only = false) {
        io::FileDevice* const file = device(backing, read_only);
        if (file == nullptr) return fail(Errc::not_found, "no such image");
        return add(*file);
    }

    std::string content(core::Volume& volume) {
        io::Buffer buffer(1 << 20);
        return run(content_sha256(volume, buffer));
    }

    // Stops the set and lets go of the devices.
    Result<void> close() {
        const Result<void> stopped = run(set_->stop());
        set_.reset();
        devices_.clear();
        return stopped;
    }

private:
    async::Executor executor_;
    std::unique_ptr<io::UringReactor> reactor_;
    Rng rng_;
    std::vector<std::unique_ptr<io::FileDevice>> devices_;
    std::unique_ptr<core::CacheSet> set_;
    core::Report report_;
};

}  // namespace uc::golden
