#include "io/uring_reactor.h"

#include <liburing.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string_view>
#include <vector>

#include "io/device_fixture.h"
#include "io/timed_wait.h"

namespace uc::io {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;

class ReactorTest : public DeviceTest {
protected:
    ReactorTest() : DeviceTest(8) {}
    void SetUp() override {
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair_.data()), 0);
    }
    void TearDown() override {
        reactor_.reset();
        for (const int fd : pair_) ::close(fd);
    }
    std::array<int, 2> pair_{-1, -1};
};

Task<void> sleep_and_note(Clock& clock, Instant until, int id, std::vector<int>& order) {
    co_await clock.sleep_until(until);
    order.push_back(id);
}

TEST_F(ReactorTest, FiresTimersByDueTimeThenByOrderOfArming) {
    std::vector<int> order;
    const Instant start = reactor_->now();
    executor_.spawn(sleep_and_note(*reactor_, start + microseconds(300), 3, order));
    executor_.spawn(sleep_and_note(*reactor_, start + microseconds(100), 1, order));
    executor_.spawn(sleep_and_note(*reactor_, start + microseconds(100), 2, order));
    while (order.size() < 3) reactor_->turn(true);
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
    EXPECT_GE(reactor_->now(), start + microseconds(300));
}

Task<void> wait_with_timeout(Clock& clock, async::Event& event, Duration timeout, int& ended) {
    co_await TimedWait(clock, event, timeout);
    ++ended;
}

TEST_F(ReactorTest, TimedWaitEndsByEventOrByTimeoutAndOnlyOnce) {
    async::Event event;
    int ended = 0;
    executor_.spawn(wait_with_timeout(*reactor_, event, hours(1), ended));
    reactor_->turn(false);
    EXPECT_EQ(ended, 0);
    event.notify();
    reactor_->turn(false);
    EXPECT_EQ(ended, 1);

    executor_.spawn(wait_with_timeout(*reactor_, event, microseconds(100), ended));
    while (ended < 2) reactor_->turn(true);
    event.notify();
    reactor_->turn(false);
    EXPECT_EQ(ended, 2);
}

Task<void> stop_after(UringReactor& reactor, Duration delay) {
    co_await reactor.sleep(delay);
    reactor.stop();
}

TEST_F(ReactorTest, RunReturnsAfterStopAndCanRunAgain) {
    executor_.spawn(stop_after(*reactor_, microseconds(50)));
    reactor_->run();
    executor_.spawn(stop_after(*reactor_, microseconds(50)));
    reactor_->run();
    EXPECT_TRUE(executor_.idle());
}

Task<void> hand_over(async::Event& mine, async::Event& other, const bool& ended) {
    while (!ended) {
        other.notify();
        co_await mine.wait();
    }
    other.notify();
}

Task<void> set_after(UringReactor& reactor, Duration delay, bool& ended) {
    co_await reactor.sleep(delay);
    ended = true;
}

TEST_F(ReactorTest, TasksThatKeepEachOtherReadyDoNotStarveTimers) {
    async::Event first;
    async::Event second;
    bool ended = false;
    executor_.spawn(hand_over(first, second, ended));
    executor_.spawn(hand_over(second, first, ended));
    executor_.spawn(set_after(*reactor_, microseconds(10), ended));
    while (!ended) reactor_->turn(true);
    reactor_->turn(false);
    EXPECT_TRUE(executor_.idle());
}

Task<void> echo(UringReactor& reactor, int fd, bool& ended) {
    Buffer buffer(64);
    while (true) {
        const Result<std::size_t> got = co_await reactor.recv(fd, buffer.span());
        if (!got || *got == 0) break;
        const Result<std::size_t> sent = co_await reactor.send(fd, buffer.span().first(*got));
        if (!sent) break;
    }
    ended = true;
}

Task<void> ask(UringReactor& reactor, int fd, Buffer& buffer, std::size_t bytes, bool& ended) {
    const Result<std::size_t> sent = co_await reactor.send(fd, buffer.span().first(bytes));
    EXPECT_EQ(sent.value_or(0), bytes);
    std::memset(buffer.data(), 0, buffer.size());
    const Result<std::size_t> events = co_await reactor.poll(fd, POLLIN);
    EXPECT_TRUE((events.value_or(0) & POLLIN) != 0);
    const Result<std::size_t> got = co_await reactor.recv(fd, buffer.span());
    EXPECT_EQ(got.value_or(0), bytes);
    ::shutdown(fd, SHUT_RDWR);
    ended = true;
}

TEST_F(ReactorTest, SendsReceivesAndPollsOnASocketPair) {
    bool echo_ended = false;
    bool ask_ended = false;
    Buffer buffer(64);
    constexpr std::string_view kText = "sixteen bytes ok";
    std::memcpy(buffer.data(), kText.data(), kText.size());
    executor_.spawn(echo(*reactor_, pair_[0], echo_ended));
    executor_.spawn(ask(*reactor_, pair_[1], buffer, kText.size(), ask_ended));
    while (!echo_ended || !ask_ended) reactor_->turn(true);
    EXPECT_EQ(std::memcmp(buffer.data(), kText.data(), kText.size()), 0);
}

Task<void> receive_once(UringReactor& reactor, int fd, Result<std::size_t>& out) {
    Buffer buffer(16);
    const Result<std::size_t> got = co_await reactor.recv(fd, buffer.span());
    out = got;
}

TEST_F(ReactorTest, ReportsTheErrorOfADescriptor) {
    Result<std::size_t> got = 99;
    executor_.spawn(receive_once(*reactor_, -1, got));
    while (got.has_value()) reactor_->turn(true);
    EXPECT_EQ(got.error().sys, EBADF);
}

TEST_F(ReactorTest, DestructionCancelsWhatIsInFlight) {
    Result<std::size_t> got = 99;
    for (int i = 0; i < 20; ++i) executor_.spawn(receive_once(*reactor_, pair_[0], got));
    reactor_->turn(false);
    EXPECT_EQ(reactor_->in_flight(), 20u);
    reactor_.reset();
    EXPECT_EQ(got.value_or(0), 99u);  // nobody was resumed
    executor_.drop_all();
}

struct CountingOp final : UringOp {
    void complete(int result) override { sum += result == 0 ? 1 : 0; }
    int sum = 0;
};

TEST_F(ReactorTest, MoreOperationsThanTheQueueHoldsAreAllCompleted) {
    CountingOp op;
    for (int i = 0; i < 1000; ++i) {
        io_uring_prep_nop(reactor_->prepare(&op));
    }
    while (reactor_->in_flight() > 0) reactor_->turn(true);
    EXPECT_EQ(op.sum, 1000);
}

}  // namespace
}  // namespace uc::io
