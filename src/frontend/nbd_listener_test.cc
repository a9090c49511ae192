#include "frontend/nbd_listener.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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

TEST_F(NbdListenerTest, ASuccessorOnARemovedPathOutlivesIt) {
    auto first = NbdListener::on_path(path_);
    ASSERT_TRUE(first);
    ASSERT_EQ(::unlink(path_.c_str()), 0);
    const auto second = first->anew();
    ASSERT_TRUE(second);
    EXPECT_FALSE(first->in_place()) << "even where numbers of files are used again at once";
    *first = NbdListener();
    EXPECT_TRUE(second->in_place());
}

}  // namespace
}  // namespace uc::frontend
