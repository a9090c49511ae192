#include "admin/attributes.h"

#include <gtest/gtest.h>

namespace uc::admin {
namespace {

const Attribute& named(std::string_view name) {
    const Attribute* attribute = find_attribute(name);
    EXPECT_NE(attribute, nullptr) << name;
    return *attribute;
}

std::uint64_t parsed(std::string_view name, std::string_view text) {
    const Outcome<AttributeValue> value = parse_value(named(name), text);
    EXPECT_TRUE(value) << name << " = " << text;
    return value ? value->number : 0;
}

std::string shown(std::string_view name, std::uint64_t number) {
    return format_value(named(name), AttributeValue{number, {}});
}

TEST(Attributes, AreShownAsInSysfs) {
    EXPECT_EQ(shown("sequential_cutoff", 4 << 20), "4.0M");
    EXPECT_EQ(shown("writeback_percent", 10), "10");
    EXPECT_EQ(shown("writeback_rate", 8), "4.0k");
    EXPECT_EQ(shown("cache_mode", 1), "writethrough [writeback] writearound none");
    EXPECT_EQ(shown("cache_replacement_policy", 0), "[lru] fifo random");
}

TEST(Attributes, AcceptSuffixesAndPlainIntegers) {
    EXPECT_EQ(parsed("sequential_cutoff", "4M"), 4u << 20);
    EXPECT_EQ(parsed("sequential_cutoff", "4194304\n"), 4u << 20);
    EXPECT_EQ(parsed("cache_mode", "none"), 3u);
}

TEST(Attributes, TakeAWriteBackRateInSectorsOrWithSuffixInBytes) {
    EXPECT_EQ(parsed("writeback_rate", "1024"), 1024u);
    EXPECT_EQ(parsed("writeback_rate", "1M"), 2048u);
    EXPECT_EQ(parsed("writeback_rate_minimum", "64"), 64u);
    EXPECT_EQ(parsed("writeback_rate_minimum", "64k"), 128u);
}

std::string refusal(std::string_view name, std::string_view text) {
    const Outcome<AttributeValue> value = parse_value(named(name), text);
    return value ? "accepted" : value.error();
}

TEST(Attributes, RefuseNumbersOutOfRangeAndSayTheRange) {
    EXPECT_EQ(refusal("sequential_cutoff", "9G"), "9G is out of range 0..4294967295 bytes");
    EXPECT_EQ(refusal("journal_delay_ms", "100000"), "100000 is out of range 0..65535");
    EXPECT_EQ(refusal("writeback_running", "7"), "7 is out of range 0..1");
    EXPECT_EQ(refusal("writeback_percent", "41"), "41 is out of range 0..40");
    EXPECT_EQ(refusal("writeback_rate", "0"), "0 is out of range 1..4294967295 sectors per second");
    EXPECT_EQ(refusal("writeback_rate", "100b"),
              "100b is out of range 1..4294967295 sectors per second");
    EXPECT_EQ(parsed("sequential_cutoff", "4294967295"), 4294967295u);
    EXPECT_EQ(parsed("writeback_percent", "40"), 40u);
}

TEST(Attributes, RefuseLabelsThatCannotBeNames) {
    for (const char* bad : {"a/b", "/", "a\tb", "a\nb", "\x7f", ".", ".."}) {
        EXPECT_NE(refusal("label", bad), "accepted") << bad;
    }
    EXPECT_NE(refusal("label", std::string(32, 'x')), "accepted");
    for (const char* good : {"", "home", "my disk", "...", "\xc3\xa9t\xc3\xa9"}) {
        EXPECT_EQ(refusal("label", good), "accepted") << good;
    }
}

TEST(Attributes, RefuseWhatDoesNotParse) {
    EXPECT_EQ(refusal("writeback_percent", "many"), "many is no number; write one like 10 or 4M");
    EXPECT_EQ(refusal("cache_mode", "write"), "use writethrough, writeback, writearound or none");
    EXPECT_EQ(refusal("cache_replacement_policy", "x"), "use lru, fifo or random");
    EXPECT_FALSE(named("dirty_data").writable());
}

TEST(Attributes, HaveUniqueNamesWithinTheirScope) {
    for (const Attribute& a : attributes()) {
        for (const Attribute& b : attributes()) {
            if (&a != &b && a.scope == b.scope) {
                EXPECT_NE(a.name, b.name);
            }
        }
    }
}

}  // namespace
}  // namespace uc::admin
