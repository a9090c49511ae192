#include "frontend/nbd_listener.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

namespace uc::frontend {
namespace {

class NbdListenerTest : public ::testing::Test {
protected:
    NbdListenerTest() { ::unlink(path_.c_str()); }
    ~NbdListenerTest() override { ::unlink(path_.c_str()); }
    bool path_exists() const {
        struct stat info {};
        return ::lstat(path_.c_str(), &info) == 0;
    }
    std::string path_ = "/tmp/uc-listener-" + std::to_string(::getpid());
};

TEST_F(NbdListenerTest, RemovesItsPathWhenItEnds) {
    {
        const auto listener = NbdListener::on_path(path_);
        ASSERT_TRUE(listener);
        EXPECT_TRUE(listener->in_place());
    }
    EXPECT_FALSE(path_exists());
}

TEST_F(NbdListenerTest, NoticesThatItsPathIsGone) {
    const auto listener = NbdListener::on_path(path_);
    ASSERT_TRUE(listener);
    ::unlink(path_.c_str());
    EXPECT_FALSE(listener->in_place());
}

TEST_F(NbdListenerTest, LeavesAPathThatSomebodyElseHasNow) {
    auto first = NbdListener::on_path(path_);
    ASSERT_TRUE(first);
    // Kept under another name, so that its successor gets another inode.
    const std::string aside = path_ + "-aside";
    ASSERT_EQ(::rename(path_.c_str(), aside.c_str()), 0);
    const auto second = NbdListener::on_path(path_);
    ASSERT_TRUE(second);
    EXPECT_FALSE(first->in_place());
    *first = NbdListener();
    EXPECT_TRUE(path_exists());
    EXPECT_TRUE(second->in_place());
    ::unlink(aside.c_str());
}

TEST_F(NbdListenerTest, LeavesItsPathWhenDisowned) {
    std::optional<NbdListener> listener;
    {
        auto made = NbdListener::on_path(path_);
        ASSERT_TRUE(made);
        listener.emplace(std::move(*made));
    }
    listener->disown();
    listener.reset();
    EXPECT_TRUE(path_exists());
}

}  // namespace
}  // namespace uc::frontend
