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
    const Result<AttributeValue> value = parse_value(named(name), text);
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

TEST(Attributes, ClampNumbersToTheirRange) {
    EXPECT_EQ(parsed("writeback_rate", "0"), 1u);
    EXPECT_EQ(parsed("journal_delay_ms", "100000"), 65535u);
    EXPECT_EQ(parsed("writeback_running", "7"), 1u);
}

TEST(Attributes, RefuseWhatDoesNotParse) {
    EXPECT_EQ(parse_value(named("writeback_percent"), "many").error().code, Errc::invalid);
    EXPECT_EQ(parse_value(named("cache_mode"), "write").error().code, Errc::invalid);
    EXPECT_EQ(parse_value(named("label"), std::string(32, 'x')).error().code, Errc::invalid);
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
