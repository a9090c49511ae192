#include "admin/size_text.h"

#include <gtest/gtest.h>

namespace uc::admin {
namespace {

TEST(SizeText, PrintsTheKernelsHumanFormat) {
    EXPECT_EQ(human(0), "0.0k");
    EXPECT_EQ(human(512), "0.5k");
    EXPECT_EQ(human(4096), "4.0k");
    EXPECT_EQ(human(1048576), "1.0M");
    EXPECT_EQ(human(1023999), "999.9k");
    EXPECT_EQ(human(std::uint64_t{1000} << 10), "0.9M");
    EXPECT_EQ(human(std::uint64_t{1} << 40), "1.0T");
    EXPECT_EQ(human_signed(-4096), "-4.0k");
}

TEST(SizeText, ParsesPlainIntegersAndSuffixes) {
    EXPECT_EQ(parse_size("4194304"), 4194304u);
    EXPECT_EQ(parse_size("4M"), 4194304u);
    EXPECT_EQ(parse_size(" 4MiB\n"), 4194304u);
    EXPECT_EQ(parse_size("2t"), std::uint64_t{2} << 40);
    EXPECT_EQ(parse_size("0"), 0u);
}

TEST(SizeText, RefusesWhatIsNotASize) {
    for (const char* text : {"", "k", "-1", "1.5k", "4x", "4Mx", "0x10", "99999999999999999999",
                             "18446744073709551615k"}) {
        EXPECT_EQ(parse_size(text), std::nullopt) << text;
    }
}

TEST(SizeText, PrintsSizesAndTimesForPeople) {
    EXPECT_EQ(pretty_size(100), "100 bytes");
    EXPECT_EQ(pretty_size(4096), "4 KiB");
    EXPECT_EQ(pretty_size(std::uint64_t{1536} << 20), "1.5 GiB");
    EXPECT_EQ(pretty_size((std::uint64_t{1} << 30) - 8192), "1.0 GiB");
    EXPECT_EQ(pretty_seconds(45), "45 s");
    EXPECT_EQ(pretty_seconds(200), "3 min 20 s");
    EXPECT_EQ(pretty_seconds(7500), "2 h 5 min");
}

}  // namespace
}  // namespace uc::admin
