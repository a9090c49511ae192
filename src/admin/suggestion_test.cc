#include "admin/suggestion.h"

#include <gtest/gtest.h>

namespace uc::admin {
namespace {

using Words = std::vector<std::string>;
const Words kCommands{"make", "show", "serve", "status", "stop", "set", "detach", "attach"};

TEST(Suggestion, FindsWhatWasMistyped) {
    EXPECT_EQ(near_words("sataus", kCommands), Words{"status"});
    EXPECT_EQ(near_words("sotp", kCommands), Words{"stop"});
    EXPECT_EQ(near_words("attahc", kCommands), Words{"attach"});
    EXPECT_EQ(near_words("shwo", kCommands), Words{"show"});
}

TEST(Suggestion, FindsWhatWasCutShortOrGoesOn) {
    EXPECT_EQ(near_words("st", kCommands), (Words{"status", "stop"}));
    EXPECT_EQ(near_words("make-bcache", kCommands), Words{"make"});
}

TEST(Suggestion, IsSilentWhenNothingIsNear) {
    EXPECT_TRUE(near_words("frobnicate", kCommands).empty());
    EXPECT_TRUE(near_words("x", kCommands).empty());
    EXPECT_TRUE(near_words("", kCommands).empty());
    EXPECT_TRUE(near_words(std::string(1000, 's'), kCommands).empty());
}

TEST(Suggestion, IsWordedAsAQuestionIfThereAreFew) {
    EXPECT_EQ(did_you_mean({}), "");
    EXPECT_EQ(did_you_mean({"stop"}), "; did you mean stop?");
    EXPECT_EQ(did_you_mean({"status", "stop"}), "; did you mean status or stop?");
    EXPECT_EQ(did_you_mean({"a", "b", "c", "d"}), "");
}

}  // namespace
}  // namespace uc::admin
