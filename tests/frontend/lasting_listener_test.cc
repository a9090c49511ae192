#include "frontend/lasting_listener.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "nbd_client.h"
#include "socket_path.h"

namespace uc::frontend {
namespace {

NbdListener listener_on(const std::string& path) {
    auto made = NbdListener::on_path(path);
    CHECK(made.has_value());
    return std::move(*made);
}

class LastingListenerTest : public testing::Test {
protected:
    LastingListenerTest() : reactor_(*io::UringReactor::create(executor_)) {}
    ~LastingListenerTest() override {
        // It is under way until its error has arrived.
        listener_.shut();
        while (tasks_.running() != 0) reactor_->turn(true);
    }
    Task<void> take_clients() {
        for (;;) {
            const Result<std::size_t> accepted = co_await listener_.accept();
            if (!accepted) co_return;
            ++clients_;
            ::close(static_cast<int>(*accepted));
        }
    }
    void serve() {
        tasks_.spawn(take_clients());
        reactor_->turn(false);
    }
    // The client's connection is there when it has been accepted.
    bool reachable() {
        const unsigned before = clients_;
        const NbdClient client(path_.text());
        if (!client.connected()) return false;
        while (clients_ == before) reactor_->turn(true);
        return true;
    }
    bool path_exists() const { return std::filesystem::exists(path_.text()); }

    SocketPath path_;
    async::Executor executor_;
    std::unique_ptr<io::UringReactor> reactor_;
    std::vector<std::string> said_;
    LastingListener listener_{*reactor_, listener_on(path_.text()), "test socket",
                              [this](const std::string& line) { said_.push_back(line); }};
    async::TaskGroup tasks_{executor_};
    unsigned clients_ = 0;
};

TEST_F(LastingListenerTest, ARemovedPathComesBackAndIsRemovedAtTheEnd) {
    serve();
    for (unsigned times = 1; times <= 2; ++times) {
        listener_.look();
        EXPECT_EQ(said_.size(), times - 1) << "it is in place";
        ::unlink(path_.text().c_str());
        listener_.look();
        listener_.look();  // nothing more to do, though accept() has not noticed yet
        EXPECT_EQ(said_.size(), times);
        EXPECT_TRUE(reachable());
    }
    EXPECT_EQ(said_.back(),
              path_.text() + ": the test socket was removed by somebody; it is there again");
}

TEST_F(LastingListenerTest, ShutEndsEverythingAlsoWhileASuccessorWaits) {
    serve();
    tasks_.spawn(listener_.watch());
    ::unlink(path_.text().c_str());
    listener_.look();
    listener_.shut();
    while (tasks_.running() != 0) reactor_->turn(true);
    ::unlink(path_.text().c_str());
    listener_.look();
    EXPECT_FALSE(path_exists());
}

TEST_F(LastingListenerTest, AnotherServersSocketIsLeftAloneUntilItEnds) {
    serve();
    ::unlink(path_.text().c_str());
    {
        const NbdListener other = listener_on(path_.text());
        listener_.look();
        listener_.look();
        ASSERT_EQ(said_.size(), 1u);
        EXPECT_NE(said_[0].find("cannot be made anew yet: another server listens"),
                  std::string::npos);
        EXPECT_TRUE(other.in_place());
    }
    listener_.look();
    EXPECT_EQ(said_.size(), 2u);
    EXPECT_TRUE(reachable());
}

}  // namespace
}  // namespace uc::frontend
