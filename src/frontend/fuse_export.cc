// Receiving requests, and what is shown.
//
// The ring polls the session's descriptor (fuse_session.h). Each wake-up takes a bounded number of
// requests; their handlers answer at once or start a task (fuse_files.cc, fuse_io.cc).
#include "frontend/fuse_export.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "frontend/fuse_state.h"

namespace uc::frontend {

namespace {

constexpr std::size_t kPoolKeeps = std::size_t{64} << 20;
constexpr int kRequestsPerTurn = 64;

const fuse_lowlevel_ops& operations() {
    static const fuse_lowlevel_ops table = [] {
        fuse_lowlevel_ops out{};
        add_file_operations(out);
        add_io_operations(out);
        return out;
    }();
    return table;
}

// Takes and dispatches one request. False: none is there now.
bool receive_one(FuseState& state) {
    if (state.received.size() == 0) state.received = state.pool.take(FuseState::kReceiveBytes);
    std::byte* const at = state.received.data() + FuseState::kReceiveAt;
    return state.session.receive({at, state.received.size() - FuseState::kReceiveAt});
}

}  // namespace

FuseState::FuseState(io::UringReactor& with_reactor, async::Executor& executor)
    : reactor(with_reactor), pool(kPoolKeeps), requests(executor) {}

FuseFile* FuseState::find(fuse_ino_t ino) {
    if (ino < 2 || ino - 2 >= files.size()) return nullptr;
    FuseFile* const file = files[ino - 2].get();
    return file->gone ? nullptr : file;
}

FuseFile* FuseState::find(const std::string& name) {
    for (const auto& file : files) {
        if (file->name == name && !file->gone) return file.get();
    }
    return nullptr;
}

FuseExport::FuseExport(std::unique_ptr<FuseState> state) : state_(std::move(state)) {}

FuseExport::~FuseExport() {
    CHECK(!state_->serving);
}

Result<std::unique_ptr<FuseExport>> FuseExport::mount(io::UringReactor& reactor,
                                                      async::Executor& executor,
                                                      const std::string& dir, FuseOptions options,
                                                      std::string* message) {
    auto state = std::make_unique<FuseState>(reactor, executor);
    TRY_OK(state->session.mount(dir, operations(), state.get(), options.allow_other, message));
    return std::unique_ptr<FuseExport>(new FuseExport(std::move(state)));
}

void FuseExport::set_volumes(const std::vector<Export>& volumes) {
    auto& files = state_->files;
    std::vector<Export> added;
    std::vector<FuseFile*> kept;
    for (const Export& each : volumes) {
        FuseFile* const known = state_->find(each.name);
        if (known != nullptr && known->volume == each.volume) {
            kept.push_back(known);
        } else {
            added.push_back(each);
        }
    }
    for (const auto& file : files) {
        if (std::ranges::find(kept, file.get()) == kept.end()) file->gone = true;
    }
    for (const Export& each : added) {
        files.push_back(std::make_unique<FuseFile>());
        files.back()->ino = files.size() + 1;
        files.back()->name = each.name;
        files.back()->volume = each.volume;
    }
}

Task<void> FuseExport::unused(const core::Volume* volume) {
    const auto uses = [volume](const auto& file) {
        return file->volume == volume && file->running > 0;
    };
    while (std::ranges::any_of(state_->files, uses)) {
        co_await state_->changed.wait();
    }
}

Task<void> FuseExport::serve() {
    state_->serving = true;
    return receive_requests();
}

Task<void> FuseExport::receive_requests() {
    FuseState& state = *state_;
    while (!state.stopping && state.session.alive()) {
        const Result<std::size_t> ready =
            co_await state.reactor.poll(state.session.poll_fd(), POLLIN);
        if (!ready) break;
        for (int i = 0; i < kRequestsPerTurn && receive_one(state); ++i) {
        }
    }
    co_await state.requests.drained();
    state.session.unmount();
    state.serving = false;
    state.changed.notify();
}

void FuseExport::stop() {
    state_->stopping = true;
    state_->session.wake();
}

Task<void> FuseExport::stopped() {
    while (state_->serving) {
        co_await state_->changed.wait();
    }
}

}  // namespace uc::frontend
