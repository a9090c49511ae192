#include "frontend/nbd_protocol.h"

#include <gtest/gtest.h>

#include <array>

namespace uc::frontend::nbd {
namespace {

template <class T>
auto bytes_of(const T& value) {
    return std::as_bytes(std::span<const T, 1>(&value, 1));
}

RequestHeader header(Command command, std::uint64_t offset, std::uint32_t length) {
    return {kRequestMagic,    std::uint16_t{0}, static_cast<std::uint16_t>(command),
            std::uint64_t{9}, offset,           length};
}

TEST(Be, StoresTheHighestByteFirst) {
    const Be<std::uint32_t> value = 0x01020304;
    EXPECT_EQ(std::to_integer<int>(bytes_of(value)[0]), 1);
    EXPECT_EQ(std::to_integer<int>(bytes_of(value)[3]), 4);
    EXPECT_EQ(std::uint32_t{value}, 0x01020304u);
    EXPECT_EQ(std::uint64_t{Be<std::uint64_t>(kHelloMagic)}, kHelloMagic);
    EXPECT_EQ(std::uint16_t{Be<std::uint16_t>(std::uint16_t{0xabcd})}, 0xabcd);
}

TEST(NbdRequest, KeepsEveryField) {
    const auto request = parse_request(bytes_of(header(Command::write, 4096, 512)));
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->command, Command::write);
    EXPECT_EQ(request->cookie, 9u);
    EXPECT_EQ(request->offset, 4096u);
    EXPECT_EQ(request->payload(), 512u);
}

TEST(NbdRequest, WithoutMagicOrWithAHugePayloadIsCorrupt) {
    RequestHeader broken = header(Command::read, 0, 512);
    broken.magic = kRequestMagic + 1;
    EXPECT_EQ(parse_request(bytes_of(broken)).error().code, Errc::corrupt);
    EXPECT_EQ(parse_request(bytes_of(header(Command::write, 0, kMaxData + 1))).error().code,
              Errc::corrupt);
    EXPECT_TRUE(parse_request(bytes_of(header(Command::trim, 0, 0xfffffe00))).has_value());
}

TEST(NbdRequest, MayNotReachBeyondTheEndEvenIfTheSumWraps) {
    const ExportFacts facts{1 << 20, 4096, false};
    const auto check = [&](Command command, std::uint64_t offset, std::uint32_t length) {
        return check_request(*parse_request(bytes_of(header(command, offset, length))), facts,
                             true);
    };
    EXPECT_EQ(check(Command::read, (1 << 20) - 512, 512), Status::ok);
    EXPECT_EQ(check(Command::read, (1 << 20) - 512, 1024), Status::inval);
    EXPECT_EQ(check(Command::read, ~std::uint64_t{511}, 512), Status::inval);
    EXPECT_EQ(check(Command::write_zeroes, ~std::uint64_t{511}, 0xfffffe00), Status::nospc);
    EXPECT_EQ(check(Command::flush, 12345, 1), Status::ok);
}

TEST(NbdRequest, DontFragmentNeedsStructuredReplies) {
    const ExportFacts facts{1 << 20, 4096, false};
    RequestHeader wire = header(Command::read, 0, 512);
    wire.flags = cmd_flag::df;
    const Request request = *parse_request(bytes_of(wire));
    EXPECT_EQ(check_request(request, facts, true), Status::ok);
    EXPECT_EQ(check_request(request, facts, false), Status::inval);
}

TEST(NbdOption, LongerThanTheLimitIsCorrupt) {
    OptionHeader option{kOptionMagic, opt::go, kMaxOption};
    EXPECT_TRUE(parse_option(bytes_of(option)).has_value());
    option.length = kMaxOption + 1;
    EXPECT_EQ(parse_option(bytes_of(option)).error().code, Errc::corrupt);
}

TEST(NbdInfo, LengthsThatDoNotFitThePayloadAreInvalid) {
    Bytes good;
    append(good, Be<std::uint32_t>(4));
    append_text(good, "disk");
    append(good, Be<std::uint16_t>(1));
    append(good, Be<std::uint16_t>(std::uint16_t{2}));
    const auto parsed = parse_info(good);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->name, "disk");
    EXPECT_TRUE(parsed->wants_description);
    EXPECT_FALSE(parsed->wants_name);
    for (std::size_t cut = 0; cut < good.size(); ++cut) {
        EXPECT_FALSE(parse_info(std::span(good).first(cut)).has_value()) << cut;
    }
    Bytes longer = good;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(parse_info(longer).has_value());
    Bytes huge = good;
    huge[0] = std::byte{0xff};
    EXPECT_FALSE(parse_info(huge).has_value());
}

TEST(NbdMeta, QueryCountIsBoundByThePayload) {
    Bytes payload;
    append(payload, Be<std::uint32_t>(0));
    append(payload, Be<std::uint32_t>(0xffffffff));
    append(payload, Be<std::uint32_t>(0));
    EXPECT_FALSE(parse_meta(payload).has_value());
}

TEST(NbdFlags, ReadOnlyExportsOfferNoChanges) {
    const std::uint16_t flags = transmission_flags({1 << 20, 512, 4096, true});
    EXPECT_NE(flags & flag::read_only, 0);
    EXPECT_EQ(flags & (flag::send_trim | flag::send_write_zeroes | flag::send_fast_zero), 0);
}

TEST(NbdHello, ClientMustSpeakFixedNewstyleAndNothingUnknown) {
    EXPECT_TRUE(parse_client_flags(bytes_of(Be<std::uint32_t>(3))).has_value());
    EXPECT_FALSE(parse_client_flags(bytes_of(Be<std::uint32_t>(2))).has_value());
    EXPECT_FALSE(parse_client_flags(bytes_of(Be<std::uint32_t>(5))).has_value());
}

}  // namespace
}  // namespace uc::frontend::nbd
