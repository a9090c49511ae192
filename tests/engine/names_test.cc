// Names lead to the same data, whatever order devices come in and whatever joins later.
#include "core/names.h"

#include "engine_world.h"

namespace uc::test {
namespace {

class Names : public testing::Test {
protected:
    WatchedDevice& labelled(const std::string& label) {
        BackingShape what;
        what.label = label;
        return world.format(what);
    }
    std::string name_of(WatchedDevice& device, AttachMode mode = AttachMode::attach) {
        const auto added = world.add(device, mode);
        EXPECT_TRUE(added) << world.report.refusal;
        return added ? (*added)->name() : std::string();
    }
    std::string new_volume(const std::string& label) {
        const auto created = world.run(world.set->create_flash_volume(128, label));
        EXPECT_TRUE(created);
        return created ? (*created)->name() : std::string();
    }

    EngineWorld world;
};

TEST_F(Names, DoNotDependOnTheOrderOfDevices) {
    WatchedDevice& first = world.format();
    WatchedDevice& second = world.format();
    ASSERT_TRUE(world.open());
    EXPECT_EQ(name_of(first), "bcache0");
    EXPECT_EQ(name_of(second), "bcache1");
    ASSERT_TRUE(world.stop());
    ASSERT_TRUE(world.open());
    EXPECT_EQ(name_of(second), "bcache1");
    EXPECT_EQ(name_of(first), "bcache0");
}

TEST_F(Names, FlashOnlyVolumeMadeLaterTakesNobodysName) {
    WatchedDevice& backing = world.format();
    ASSERT_TRUE(world.open());
    EXPECT_EQ(name_of(backing), "bcache0");
    EXPECT_EQ(new_volume(""), "bcache1");
    ASSERT_TRUE(world.stop());
    ASSERT_TRUE(world.open());
    ASSERT_EQ(world.set->volumes().size(), 1u);
    EXPECT_EQ(world.set->volumes().front()->name(), "bcache1");
    EXPECT_EQ(name_of(backing), "bcache0");
}

TEST_F(Names, LabelThatTwoDevicesHaveNamesNeither) {
    WatchedDevice& first = labelled("data");
    WatchedDevice& second = labelled("data");
    ASSERT_TRUE(world.open());
    EXPECT_EQ(name_of(first), "data");
    EXPECT_EQ(name_of(second), "bcache1");
    ASSERT_FALSE(world.report.notes.empty());
    EXPECT_NE(world.report.notes.back().find("'data'"), std::string::npos);
    ASSERT_TRUE(world.stop());
    ASSERT_TRUE(world.open());
    EXPECT_EQ(name_of(second), "bcache1");
    EXPECT_EQ(name_of(first), "bcache0") << "not 'data', which could be either";
}

TEST_F(Names, LabelIsNotGivenTwice) {
    WatchedDevice& first = labelled("data");
    ASSERT_TRUE(world.open());
    EXPECT_EQ(name_of(first), "data");
    const auto created = world.run(world.set->create_flash_volume(128, "data"));
    ASSERT_FALSE(created);
    EXPECT_EQ(created.error().code, Errc::busy);
    EXPECT_EQ(new_volume("other"), "other");
    SetVolume& other = *world.set->volumes().back();
    EXPECT_FALSE(world.run(other.set_label("data")));
    EXPECT_TRUE(world.run(other.set_label("other"))) << "its own";
}

TEST_F(Names, LabelLikeANumberIsRefused) {
    EXPECT_NE(core::label_problem("bcache0"), nullptr);
    EXPECT_NE(core::label_problem("bcache-01234567"), nullptr);
    EXPECT_NE(core::label_problem("a/b"), nullptr);
    EXPECT_NE(core::label_problem(".."), nullptr);
    EXPECT_NE(core::label_problem("a\nb"), nullptr);
    EXPECT_EQ(core::label_problem("bcaches"), nullptr);
    EXPECT_EQ(core::label_problem("b\xc3\xa4r"), nullptr);
}

TEST_F(Names, LabelLikeANumberThatSomebodyElseWroteIsNoName) {
    WatchedDevice& first = world.format();
    WatchedDevice& second = labelled("bcache0");
    ASSERT_TRUE(world.open());
    EXPECT_EQ(name_of(first), "bcache0");
    EXPECT_EQ(name_of(second), "bcache1");
}

TEST_F(Names, DeviceThatRunsWithoutTheSetGoesByItsUuid) {
    WatchedDevice& first = world.format();
    WatchedDevice& second = labelled("data");
    ASSERT_TRUE(world.open());
    const std::string name = name_of(second, AttachMode::known);
    EXPECT_EQ(name, "bcache-" + world.superblock_of(second).uuid.to_string().substr(0, 8));
    EXPECT_EQ(name_of(first), "bcache0");
}

}  // namespace
}  // namespace uc::test
