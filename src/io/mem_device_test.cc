#include "io/mem_device.h"

#include <gtest/gtest.h>

#include "io/device_fixture.h"

namespace uc::io {
namespace {

bool submit(BlockDevice& device, IoRequest& request, IoKind kind, std::uint64_t sector,
            std::uint64_t sectors, std::byte* data = nullptr) {
    request.kind = kind;
    request.sector = sector;
    request.sectors = sectors;
    request.data = data;
    return device.submit(&request);
}

class MemDeviceTest : public ::testing::Test {
protected:
    void SetUp() override {
        auto created = MemDevice::create(1 << 20);
        ASSERT_TRUE(created.has_value());
        device_ = std::move(*created);
        fill_pattern(data_.span(), 5);
    }
    std::unique_ptr<MemDevice> device_;
    IoRequest request_;
    Buffer data_{64 * kSectorBytes};
};

TEST_F(MemDeviceTest, ReadsWhatWasWrittenAndZeroElsewhere) {
    EXPECT_TRUE(submit(*device_, request_, IoKind::write, 1000, 64, data_.data()));
    EXPECT_TRUE(request_.ok);
    Buffer back(64 * kSectorBytes);
    EXPECT_TRUE(submit(*device_, request_, IoKind::read, 1000, 64, back.data()));
    EXPECT_TRUE(holds_pattern(back.span(), 5));
    EXPECT_TRUE(submit(*device_, request_, IoKind::read, 1064, 64, back.data()));
    EXPECT_TRUE(all_zero(back.span()));
}

TEST_F(MemDeviceTest, DiscardZeroesExactlyItsRange) {
    submit(*device_, request_, IoKind::write, 1000, 64, data_.data());
    submit(*device_, request_, IoKind::discard, 1001, 62);
    Buffer back(64 * kSectorBytes);
    submit(*device_, request_, IoKind::read, 1000, 64, back.data());
    EXPECT_TRUE(all_zero(back.span().subspan(512, 62 * 512)));
    EXPECT_EQ(std::memcmp(back.data(), data_.data(), 512), 0);
    EXPECT_EQ(std::memcmp(back.data() + 63 * 512, data_.data() + 63 * 512, 512), 0);
    submit(*device_, request_, IoKind::write_zeroes, 1000, 1);
    submit(*device_, request_, IoKind::read, 1000, 1, back.data());
    EXPECT_TRUE(all_zero(back.span().first(512)));
}

TEST_F(MemDeviceTest, RefusesRequestsBeyondTheEnd) {
    EXPECT_TRUE(submit(*device_, request_, IoKind::write, (1 << 20) - 1, 2, data_.data()));
    EXPECT_FALSE(request_.ok);
    EXPECT_EQ(request_.error.code, Errc::invalid);
    EXPECT_TRUE(submit(*device_, request_, IoKind::read, ~0ULL, 2, data_.data()));
    EXPECT_FALSE(request_.ok);
    EXPECT_TRUE(submit(*device_, request_, IoKind::flush, 0, 0));
    EXPECT_TRUE(request_.ok);
}

}  // namespace
}  // namespace uc::io
