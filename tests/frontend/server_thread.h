// Runs a reactor with an NBD server on a thread of its own, so that a test can be a plain blocking
// client. Everything of the server is touched on that thread only: see call().
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "frontend/nbd_server.h"
#include "io/uring_reactor.h"
#include "memory_volume.h"

namespace uc::frontend {

class ServerThread {
public:
    // Serves when it returns. The ring belongs to the thread that made it, so all is made there.
    explicit ServerThread(const std::string& path) : wake_(::eventfd(0, EFD_CLOEXEC)) {
        std::promise<void> ready;
        thread_ = std::thread([this, &path, &ready] { run(path, ready); });
        ready.get_future().wait();
    }
    ~ServerThread() { stop(); }

    // Afterwards the volumes may be looked at from anywhere.
    void stop() {
        if (!thread_.joinable()) return;
        leaving_ = true;
        wake();
        thread_.join();
        ::close(wake_);
    }
    // Runs `work` on the server's thread.
    void call(std::function<void()> work) {
        std::packaged_task<void()> task(std::move(work));
        std::future<void> done = task.get_future();
        {
            const std::lock_guard lock(mutex_);
            work_.push_back(std::move(task));
        }
        wake();
        done.wait();
    }
    NbdServer& server() { return *server_; }
    io::UringReactor& reactor() { return *reactor_; }
    async::Executor& executor() { return executor_; }

    MemoryVolume disk{"disk", 1 << 20};
    MemoryVolume other{"other", 8 << 20};

private:
    void wake() {
        const std::uint64_t one = 1;
        CHECK(::write(wake_, &one, sizeof one) == sizeof one);
    }
    void run_work() {
        std::uint64_t count = 0;
        CHECK(::read(wake_, &count, sizeof count) == sizeof count);
        std::vector<std::packaged_task<void()>> work;
        {
            const std::lock_guard lock(mutex_);
            work.swap(work_);
        }
        for (auto& each : work) each();
    }
    void run(const std::string& path, std::promise<void>& ready) {
        auto reactor = io::UringReactor::create(executor_);
        CHECK(reactor.has_value());
        reactor_ = std::move(*reactor);
        auto server = NbdServer::listen_unix(*reactor_, executor_, path, std::nullopt,
                                             [](const std::string&) {});
        CHECK(server.has_value());
        server_ = std::move(*server);
        server_->set_exports({{"disk", &disk, "the first"}, {"other", &other, ""}});
        executor_.spawn(server_->serve());
        executor_.spawn(obey());
        ready.set_value();
        reactor_->run();
        server_.reset();
        reactor_.reset();
    }
    Task<void> obey() {
        while (!leaving_) {
            const Result<std::size_t> ready = co_await reactor_->poll(wake_, POLLIN);
            CHECK(ready.has_value());
            run_work();
        }
        server_->stop();
        co_await server_->stopped();
        reactor_->stop();
    }

    async::Executor executor_;
    std::unique_ptr<io::UringReactor> reactor_;
    std::unique_ptr<NbdServer> server_;
    int wake_;
    std::atomic<bool> leaving_ = false;
    std::mutex mutex_;
    std::vector<std::packaged_task<void()>> work_;
    std::thread thread_;
};

}  // namespace uc::frontend
