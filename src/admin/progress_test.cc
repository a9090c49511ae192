#include "admin/progress.h"

#include <gtest/gtest.h>

namespace uc::admin {
namespace {

TEST(Progress, TellsHowMuchIsDoneAndHowLongItTakes) {
    const std::uint64_t mib = 1 << 20;
    EXPECT_EQ(Progress::line("home", 100 * mib, 75 * mib, 10),
              "home: 25 MiB of 100 MiB written back (25%), 30 s left");
}

TEST(Progress, SaysNothingAboutTimeBeforeItKnowsTheSpeed) {
    EXPECT_EQ(Progress::line("home", 4096, 4096, 10), "home: 0 bytes of 4 KiB written back (0%)");
    EXPECT_EQ(Progress::line("home", 4096, 2048, 0.5), "home: 2 KiB of 4 KiB written back (50%)");
}

TEST(Progress, IsCompleteOnlyWhenNothingIsLeft) {
    const std::uint64_t tib = std::uint64_t{1} << 40;
    EXPECT_NE(Progress::line("home", tib, 1, 0).find("(99%)"), std::string::npos);
    EXPECT_NE(Progress::line("home", tib, 0, 0).find("(100%)"), std::string::npos);
}

TEST(Progress, IsCompleteIfThereWasNothingToDo) {
    EXPECT_EQ(Progress::line("home", 0, 0, 0), "home: 0 bytes of 0 bytes written back (100%)");
}

}  // namespace
}  // namespace uc::admin
