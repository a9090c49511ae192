// The NBD server over a real socket with a decent client. Hostile ones: nbd_hostile_test.cc.
#include "frontend/nbd_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "nbd_client.h"
#include "server_thread.h"
#include "socket_path.h"

namespace uc::frontend {
namespace {

using nbd::Command;
using nbd::Status;

nbd::Bytes pattern(std::size_t bytes, unsigned seed) {
    nbd::Bytes out(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        out[i] = static_cast<std::byte>((i / 512 * 31 + i + seed) & 0xff);
    }
    return out;
}

std::string text_of(const nbd::Bytes& bytes, std::size_t from) {
    return std::string(reinterpret_cast<const char*>(bytes.data()) + from, bytes.size() - from);
}

class NbdServerTest : public testing::Test {
protected:
    SocketPath path;
    ServerThread server{path.text()};
};

TEST_F(NbdServerTest, GoTellsSizeFlagsAndBlockSizes) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.greet());
    const auto replies = client.option(nbd::opt::go, NbdClient::info_payload("other", {1, 2}));
    ASSERT_EQ(replies.size(), 5u);
    nbd::Bytes expected;
    nbd::append(expected, Be<std::uint16_t>(0));
    nbd::append(expected, Be<std::uint64_t>(8 << 20));
    nbd::append(expected, Be<std::uint16_t>(0b100111101101));
    EXPECT_EQ(replies[0].payload, expected);
    expected.clear();
    nbd::append(expected, Be<std::uint16_t>(3));
    nbd::append(expected, Be<std::uint32_t>(4096));
    nbd::append(expected, Be<std::uint32_t>(4096));
    nbd::append(expected, Be<std::uint32_t>(32 << 20));
    EXPECT_EQ(replies[1].payload, expected);
    EXPECT_EQ(text_of(replies[2].payload, 2), "other");
    EXPECT_EQ(replies[4].type, nbd::rep::ack);
}

TEST_F(NbdServerTest, InfoDoesNotEndTheOptions) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.greet());
    EXPECT_EQ(client.option(nbd::opt::info, NbdClient::info_payload("disk")).back().type,
              nbd::rep::ack);
    EXPECT_EQ(client.option(nbd::opt::info, NbdClient::info_payload("none")).back().type,
              nbd::rep::err_unknown);
    EXPECT_EQ(client.option(nbd::opt::list).size(), 3u);
    EXPECT_EQ(client.option(nbd::opt::abort).back().type, nbd::rep::ack);
    EXPECT_TRUE(client.at_end());
}

TEST_F(NbdServerTest, ExportsAreFoundByNameThenByUuidThenByALabelThatOnlyOneHas) {
    MemoryVolume third{"third", 4 << 20};
    server.call([&] {
        server.server().set_exports({{"disk", &server.disk, "", "uuid-1", "twice"},
                                     {"other", &server.other, "", "uuid-2", "twice"},
                                     {"third", &third, "", "uuid-3", "data"},
                                     {"uuid-3", &server.disk, "", "uuid-4", "third"}});
    });
    const auto size_of = [this](std::string_view name) {
        NbdClient client(path.text());
        if (!client.greet()) return std::uint64_t{0};
        const auto replies = client.option(nbd::opt::go, NbdClient::info_payload(name));
        if (replies.back().type != nbd::rep::ack) return std::uint64_t{0};
        Be<std::uint64_t> bytes;
        std::memcpy(&bytes, replies.front().payload.data() + 2, sizeof bytes);
        return std::uint64_t{bytes};
    };
    EXPECT_EQ(size_of("uuid-2"), 8u << 20);
    EXPECT_EQ(size_of("data"), 4u << 20);
    EXPECT_EQ(size_of("uuid-3"), 1u << 20) << "it is a name, too";
    EXPECT_EQ(size_of("third"), 4u << 20) << "it is a name, too";
    EXPECT_EQ(size_of("twice"), 0u);
    EXPECT_EQ(size_of("none"), 0u);
    server.call([&] { server.server().set_exports({}); });
    server.stop();
}

TEST_F(NbdServerTest, UnknownAndMalformedOptionsAreAnsweredAndTheRestWorks) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.greet());
    EXPECT_EQ(client.option(5).back().type, nbd::rep::err_unsup);  // STARTTLS
    EXPECT_EQ(client.option(77, pattern(60000, 1)).back().type, nbd::rep::err_unsup);
    EXPECT_EQ(client.option(nbd::opt::go, pattern(5, 1)).back().type, nbd::rep::err_invalid);
    EXPECT_EQ(client.option(nbd::opt::list, pattern(5, 1)).back().type, nbd::rep::err_invalid);
    EXPECT_EQ(client.option(nbd::opt::go, NbdClient::info_payload("")).back().type, nbd::rep::ack);
    EXPECT_EQ(client.status_of(Command::read, 0, 512), Status::ok);
}

TEST_F(NbdServerTest, MetaContextsAreAnsweredWithNone) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.greet());
    nbd::Bytes query;
    nbd::append(query, Be<std::uint32_t>(0));
    nbd::append(query, Be<std::uint32_t>(1));
    nbd::append(query, Be<std::uint32_t>(15));
    nbd::append_text(query, "base:allocation");
    EXPECT_EQ(client.option(nbd::opt::set_meta_context, query).back().type, nbd::rep::err_invalid);
    EXPECT_EQ(client.option(nbd::opt::structured_reply).back().type, nbd::rep::ack);
    const auto replies = client.option(nbd::opt::set_meta_context, query);
    ASSERT_EQ(replies.size(), 1u);
    EXPECT_EQ(replies[0].type, nbd::rep::ack);
}

TEST_F(NbdServerTest, ExportNamePadsUnlessToldNotTo) {
    for (const bool no_zeroes : {false, true}) {
        NbdClient client(path.text());
        ASSERT_TRUE(client.greet(nbd::kFixedNewstyle | (no_zeroes ? nbd::kNoZeroes : 0)));
        nbd::Bytes name;
        nbd::append_text(name, "other");
        ASSERT_TRUE(client.send_option(nbd::opt::export_name, name));
        EXPECT_EQ(client.receive(no_zeroes ? 10 : 134).size(), no_zeroes ? 10u : 134u);
        EXPECT_EQ(client.status_of(Command::flush, 0, 0), Status::ok);
    }
}

TEST_F(NbdServerTest, WritesReadBackInBothReplyForms) {
    for (const bool structured : {false, true}) {
        NbdClient client(path.text());
        ASSERT_TRUE(client.go("other", structured));
        for (const std::uint32_t length : {512u, 4096u, 70000u / 512 * 512, 3u << 20}) {
            const nbd::Bytes data = pattern(length, length + structured);
            EXPECT_EQ(client.status_of(Command::write, 1024, length, data), Status::ok);
            ASSERT_TRUE(client.send_request(Command::read, 99, 1024, length));
            const auto answer = client.receive_answer(length);
            ASSERT_TRUE(answer.has_value());
            EXPECT_EQ(answer->cookie, 99u);
            EXPECT_TRUE(answer->data == data);
        }
    }
}

TEST_F(NbdServerTest, RequestsOutsideTheRulesAreRefusedOneByOne) {
    for (const bool structured : {false, true}) {
        NbdClient client(path.text());
        ASSERT_TRUE(client.go("disk", structured));
        EXPECT_EQ(client.status_of(Command::read, 1, 512), Status::inval);
        EXPECT_EQ(client.status_of(Command::read, 0, 100), Status::inval);
        EXPECT_EQ(client.status_of(Command::read, 1 << 20, 512), Status::inval);
        EXPECT_EQ(client.status_of(Command::read, ~std::uint64_t{511}, 1024), Status::inval);
        EXPECT_EQ(client.status_of(Command::read, 0, 64 << 20), Status::inval);
        EXPECT_EQ(client.status_of(Command::write, 1 << 20, 512, pattern(512, 0)), Status::nospc);
        EXPECT_EQ(client.status_of(Command::write, 3, 513, pattern(513, 0)), Status::inval);
        EXPECT_EQ(client.status_of(Command::trim, 1 << 20, 512), Status::nospc);
        EXPECT_EQ(client.status_of(Command::block_status, 0, 512), Status::inval);
        EXPECT_EQ(client.status_of(static_cast<Command>(999), 0, 512), Status::inval);
        EXPECT_EQ(client.status_of(Command::flush, 0, 0, {}, 1 << 9), Status::inval);
        EXPECT_EQ(client.status_of(Command::write_zeroes, 0, 512, {}, nbd::cmd_flag::fast_zero),
                  Status::notsup);
        EXPECT_EQ(client.status_of(Command::read, 0, 512), Status::ok);
    }
    server.stop();
    EXPECT_EQ(server.disk.counts.writes, 0u);
}

TEST_F(NbdServerTest, ReadOnlyVolumesRefuseChanges) {
    server.call([this] { server.disk.writable = false; });
    NbdClient client(path.text());
    ASSERT_TRUE(client.go());
    EXPECT_EQ(client.status_of(Command::write, 0, 512, pattern(512, 0)), Status::perm);
    EXPECT_EQ(client.status_of(Command::trim, 0, 512), Status::perm);
    EXPECT_EQ(client.status_of(Command::write_zeroes, 0, 512), Status::perm);
    EXPECT_EQ(client.status_of(Command::read, 0, 512), Status::ok);
}

TEST_F(NbdServerTest, ErrorsOfTheVolumeBecomeErrorsOfTheProtocol) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.go());
    const std::pair<Errc, Status> table[] = {
        {Errc::io, Status::io},          {Errc::gone, Status::io},
        {Errc::data_lost, Status::io},   {Errc::no_space, Status::nospc},
        {Errc::read_only, Status::perm}, {Errc::stopped, Status::shutdown},
    };
    for (const auto& [code, status] : table) {
        server.call([this, code = code] { server.disk.failure = Error{code, 0, ""}; });
        EXPECT_EQ(client.status_of(Command::read, 0, 512), status);
        EXPECT_EQ(client.status_of(Command::flush, 0, 0), status);
    }
    server.call([this] { server.disk.failure = Error{Errc::unsupported, 0, ""}; });
    EXPECT_EQ(client.status_of(Command::trim, 0, 512), Status::ok);
    EXPECT_EQ(client.status_of(Command::write_zeroes, 0, 512), Status::notsup);
}

TEST_F(NbdServerTest, FuaAndFlushReachTheVolume) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.go());
    const std::uint16_t fua = nbd::cmd_flag::fua;
    EXPECT_EQ(client.status_of(Command::write, 0, 512, pattern(512, 0), fua), Status::ok);
    EXPECT_EQ(client.status_of(Command::write_zeroes, 0, 512, {}, fua), Status::ok);
    EXPECT_EQ(client.status_of(Command::trim, 0, 512, {}, fua), Status::ok);
    EXPECT_EQ(client.status_of(Command::flush, 0, 0), Status::ok);
    server.stop();
    EXPECT_EQ(server.disk.counts.fua_writes, 2u);
    EXPECT_EQ(server.disk.counts.flushes, 2u);  // the trim's and the client's
}

TEST_F(NbdServerTest, MoreRequestsThanSlotsAreAllAnswered) {
    server.call([this] { server.disk.delay(server.reactor(), std::chrono::microseconds(100)); });
    NbdClient client(path.text());
    ASSERT_TRUE(client.go());
    constexpr std::uint64_t count = 5 * NbdConnection::kMaxInFlight;
    for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(client.send_request(Command::read, i, i * 512, 512));
    }
    std::vector<bool> seen(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto answer = client.receive_answer(512);
        ASSERT_TRUE(answer.has_value());
        ASSERT_LT(answer->cookie, count);
        EXPECT_FALSE(seen[answer->cookie]);
        seen[answer->cookie] = true;
    }
}

// Payloads are copied out of what was read ahead or received in place, whole or in parts: whatever
// the sizes and wherever the stream is cut, each byte must end up where it belongs.
TEST_F(NbdServerTest, WritesOfAllSizesInOneStreamDoNotMix) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.go("other"));
    nbd::Bytes stream;
    nbd::Bytes expected;
    const std::uint32_t sizes[] = {512,   4096,    32768, 33280, 200704, 4096,  28672,
                                   65536, 1 << 20, 512,   32256, 262144, 300032};
    unsigned count = 0;
    for (const std::uint32_t size : sizes) {
        const nbd::Bytes data = pattern(size, 100 * ++count);
        nbd::append(stream, nbd::RequestHeader{nbd::kRequestMagic, std::uint16_t{0},
                                               static_cast<std::uint16_t>(Command::write),
                                               std::uint64_t{count}, expected.size(), size});
        stream.insert(stream.end(), data.begin(), data.end());
        expected.insert(expected.end(), data.begin(), data.end());
    }
    for (const std::size_t piece : {stream.size(), std::size_t{30011}, std::size_t{777}}) {
        server.call([this] { std::ranges::fill(server.other.bytes(), std::byte{0}); });
        for (std::size_t at = 0; at < stream.size(); at += piece) {
            const auto begin = stream.begin() + static_cast<std::ptrdiff_t>(at);
            const std::size_t length = std::min(piece, stream.size() - at);
            ASSERT_TRUE(
                client.send(nbd::Bytes(begin, begin + static_cast<std::ptrdiff_t>(length))));
        }
        for (unsigned i = 0; i < count; ++i) {
            const auto answer = client.receive_answer(0);
            ASSERT_TRUE(answer.has_value());
            EXPECT_EQ(answer->status, Status::ok);
        }
        const auto length = static_cast<std::uint32_t>(expected.size());
        ASSERT_TRUE(client.send_request(Command::read, 1, 0, length));
        const auto answer = client.receive_answer(length);
        ASSERT_TRUE(answer.has_value());
        EXPECT_TRUE(answer->data == expected);
    }
}

// The socket takes only a part of the answers, so each way of sending has to go on where another
// one stopped.
TEST_F(NbdServerTest, AClientThatReadsLateGetsEveryByte) {
    server.call([this] {
        const nbd::Bytes data = pattern(server.other.bytes().size(), 5);
        std::ranges::copy(data, server.other.bytes().begin());
    });
    for (const bool structured : {false, true}) {
        NbdClient client(path.text());
        ASSERT_TRUE(client.go("other", structured));
        const std::uint32_t sizes[] = {256 << 10, 4096, 70144, 512};
        constexpr std::uint64_t count = 100;
        for (std::uint64_t i = 0; i < count; ++i) {
            ASSERT_TRUE(client.send_request(Command::read, i, i * 4096, sizes[i % 4]));
        }
        unsigned reads = 0;
        while (reads == 0) server.call([&] { reads = server.other.counts.reads; });
        for (std::uint64_t i = 0; i < count; ++i) {
            const auto answer = client.receive_answer(sizes[i % 4]);
            ASSERT_TRUE(answer.has_value());
            ASSERT_EQ(answer->cookie, i);  // this volume answers in order
            const auto from = server.other.bytes().begin() + static_cast<std::ptrdiff_t>(i * 4096);
            EXPECT_TRUE(std::equal(answer->data.begin(), answer->data.end(), from));
        }
    }
}

TEST_F(NbdServerTest, StopDoesNotWaitForAClientThatTakesNoAnswers) {
    NbdClient client(path.text());
    ASSERT_TRUE(client.go("other"));
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(client.send_request(Command::read, 1, 0, 1 << 20));
    }
    unsigned reads = 0;
    while (reads == 0) server.call([&] { reads = server.other.counts.reads; });
    server.stop();
    EXPECT_FALSE(NbdClient(path.text()).connected());
}

TEST_F(NbdServerTest, StopAnswersWhatItTook) {
    server.call([this] { server.disk.delay(server.reactor(), std::chrono::milliseconds(50)); });
    NbdClient client(path.text());
    ASSERT_TRUE(client.go());
    ASSERT_TRUE(client.send_request(Command::read, 5, 0, 4096));
    while (true) {
        unsigned reads = 0;
        server.call([&] { reads = server.disk.counts.reads; });
        if (reads > 0) break;
    }
    server.stop();
    const auto answer = client.receive_answer(4096);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->status, Status::ok);
    EXPECT_TRUE(client.at_end());
    EXPECT_FALSE(NbdClient(path.text()).connected());
}

Task<void> wait_unused(NbdServer& server, const core::Volume& volume, std::promise<void>& done) {
    co_await server.unused(&volume);
    done.set_value();
}

TEST_F(NbdServerTest, RemovingAnExportEndsItsConnectionsOnly) {
    NbdClient removed(path.text());
    NbdClient kept(path.text());
    ASSERT_TRUE(removed.go("other"));
    ASSERT_TRUE(kept.go("disk"));
    std::promise<void> unused;
    server.call([&] {
        server.server().set_exports({{"disk", &server.disk, ""}});
        server.executor().spawn(wait_unused(server.server(), server.other, unused));
    });
    unused.get_future().wait();
    EXPECT_TRUE(removed.at_end());
    EXPECT_EQ(kept.status_of(Command::read, 0, 512), Status::ok);
    NbdClient late(path.text());
    EXPECT_FALSE(late.go("other"));
}

TEST(NbdListener, TakesOverASocketWithoutAServerAndRefusesALiveOne) {
    const SocketPath path;
    { ServerThread gone(path.text()); }
    {
        // Bound, then closed without removing the path, as by a killed process.
        const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, path.text().c_str(), sizeof address.sun_path - 1);
        ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        ::close(fd);
    }
    auto first = NbdListener::on_path(path.text());
    ASSERT_TRUE(first.has_value());
    struct stat info {};
    ASSERT_EQ(::stat(path.text().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    const auto second = NbdListener::on_path(path.text());
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, Errc::busy);
}

TEST(NbdListener, NeverRemovesAFileThatIsNoSocket) {
    const SocketPath path;
    std::ofstream(path.text()) << "precious";
    const auto listener = NbdListener::on_path(path.text());
    ASSERT_FALSE(listener.has_value());
    EXPECT_EQ(listener.error().code, Errc::invalid);
    EXPECT_EQ(::access(path.text().c_str(), F_OK), 0);
}

TEST(NbdListener, KeepsToLoopbackUnlessTold) {
    EXPECT_FALSE(NbdListener::on_tcp("0.0.0.0", 0, Reach::loopback).has_value());
    EXPECT_FALSE(NbdListener::on_tcp("nonsense.invalid", 0, Reach::anywhere).has_value());
    const auto any = NbdListener::on_tcp("0.0.0.0", 0, Reach::anywhere);
    EXPECT_TRUE(any.has_value());
    const auto local = NbdListener::on_tcp("127.0.0.1", 0, Reach::loopback);
    ASSERT_TRUE(local.has_value());
    EXPECT_EQ(local->address().substr(0, 16), "nbd://127.0.0.1:");
}

}  // namespace
}  // namespace uc::frontend
