// Clients that break the protocol, flood, stall or vanish. After each, the server must still serve
// others: every test ends with a decent client.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "nbd_client.h"
#include "server_thread.h"
#include "socket_path.h"

namespace uc::frontend {
namespace {

using nbd::Command;
using nbd::Status;

class NbdHostile : public testing::Test {
protected:
    void TearDown() override {
        NbdClient client(path.text());
        ASSERT_TRUE(client.go());
        EXPECT_EQ(client.status_of(Command::read, 0, 4096), Status::ok);
    }
    nbd::Bytes garbage(std::size_t bytes) {
        nbd::Bytes out(bytes);
        for (std::byte& each : out) each = static_cast<std::byte>(rng.next() & 0xff);
        return out;
    }

    Rng rng{4711};
    SocketPath path;
    ServerThread server{path.text()};
};

TEST_F(NbdHostile, GarbageInsteadOfAHandshakeDisconnects) {
    for (int i = 0; i < 50; ++i) {
        NbdClient client(path.text());
        client.receive<nbd::Hello>();
        client.send(garbage(1 + rng.below(3000)));
    }
    NbdClient client(path.text());
    client.receive<nbd::Hello>();
    ASSERT_TRUE(client.send(nbd::Bytes(4, std::byte{0xff})));
    EXPECT_TRUE(client.at_end());
}

TEST_F(NbdHostile, BadOptionMagicDisconnects) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.greet());
    client.send(garbage(16));
    EXPECT_TRUE(client.at_end());
}

TEST_F(NbdHostile, HugeOptionDisconnects) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.greet());
    nbd::Bytes out;
    nbd::append(out, nbd::OptionHeader{nbd::kOptionMagic, nbd::opt::list, 0xffffffffu});
    client.send(out);
    EXPECT_TRUE(client.at_end());
}

TEST_F(NbdHostile, GarbageOptionsAreSurvived) {
    for (int i = 0; i < 200; ++i) {
        NbdClient client(path.text());
        ASSERT_TRUE(client.greet());
        const auto option = static_cast<std::uint32_t>(rng.below(12));
        client.send_option(option, garbage(rng.below(64)));
        client.send_option(nbd::opt::abort);
    }
}

TEST_F(NbdHostile, BadRequestMagicDisconnects) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.go());
    client.send(garbage(28));
    EXPECT_TRUE(client.at_end());
}

TEST_F(NbdHostile, HugeWriteDisconnects) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.go());
    client.send_request(Command::write, 1, 0, 0xfffffe00u);
    EXPECT_TRUE(client.at_end());
}

TEST_F(NbdHostile, GarbageRequestsAreSurvived) {
    for (int i = 0; i < 200; ++i) {
        NbdClient client(path.text());
        ASSERT_TRUE(client.go("", rng.percent(50)));
        for (int k = 0; k < 5; ++k) {
            const auto command = static_cast<Command>(rng.below(9));
            const auto length = static_cast<std::uint32_t>(rng.below(70000));
            const nbd::Bytes payload = garbage(command == Command::write ? rng.below(70000) : 0);
            client.send_request(command, rng.next(), rng.below(2 << 20), length, payload,
                                static_cast<std::uint16_t>(rng.below(32)));
        }
    }
}

TEST_F(NbdHostile, AWriteCutOffInTheMiddleChangesNothing) {
    for (const std::size_t sent : {0, 1, 511, 4096, 100000}) {
        NbdClient client(path.text());
        ASSERT_TRUE(client.go());
        ASSERT_TRUE(client.send_request(Command::write, 1, 0, 128 << 10, garbage(sent)));
    }
    // The server has seen the end of all of them when no connection is left.
    std::size_t connections = 1;
    unsigned writes = 1;
    while (connections > 0) {
        server.call([&] {
            connections = server.server().connections();
            writes = server.disk.counts.writes;
        });
    }
    EXPECT_EQ(writes, 0u);
}

TEST_F(NbdHostile, HalfARequestIsNoRequest) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.go());
    nbd::Bytes out;
    nbd::append(out, Be<std::uint32_t>(nbd::kRequestMagic));
    ASSERT_TRUE(client.send(out));
}

TEST_F(NbdHostile, AFloodWithoutTakingAnswersStallsOnlyItself) {
    server.call([this] { server.disk.delay(server.reactor(), std::chrono::microseconds(10)); });
    NbdClient flood(path.text());
    ASSERT_TRUE(flood.go());
    // 128 slots of 64 KiB are far more than the socket takes.
    for (int i = 0; i < 400; ++i) {
        ASSERT_TRUE(flood.send_request(Command::read, 1, 0, 64 << 10));
    }
    for (int i = 0; i < 100; ++i) {
        NbdClient other(path.text());
        ASSERT_TRUE(other.go());
        EXPECT_EQ(other.status_of(Command::read, 0, 4096), Status::ok);
    }
}

TEST_F(NbdHostile, DisconnectingWithRequestsInFlightIsSurvived) {
    server.call([this] { server.disk.delay(server.reactor(), std::chrono::milliseconds(2)); });
    for (int i = 0; i < 20; ++i) {
        NbdClient client(path.text());
        ASSERT_TRUE(client.go());
        for (int k = 0; k < 50; ++k) client.send_request(Command::read, 1, 0, 64 << 10);
    }
}

}  // namespace
}  // namespace uc::frontend
