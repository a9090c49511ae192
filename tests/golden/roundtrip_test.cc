// Every structure that the kernel left on the golden images decodes, and encoding what was decoded
// gives the same bytes again. Where the format leaves bytes arbitrary (what follows the words of
// the two keys in a journal header, its padding, the rest of a last block), those are left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "golden_image.h"
#include "ondisk/bset.h"
#include "ondisk/checksum.h"
#include "ondisk/jset.h"
#include "ondisk/prio_set.h"
#include "ondisk/superblock.h"
#include "ondisk/uuid.h"
#include "ondisk/validate.h"

namespace uc::golden {
namespace {

using namespace ondisk;
using Bytes = std::vector<std::byte>;

// A message instead of thousands of bytes.
bool same(const Bytes& read, std::span<const std::byte> written, const std::string& what) {
    const bool equal = std::equal(read.begin(), read.end(), written.begin(), written.end());
    EXPECT_TRUE(equal) << what;
    return equal;
}

// The entry's bytes with all that is arbitrary set to zero and the checksum made right again.
Bytes without_arbitrary_words(std::span<const std::byte> bytes, const Jset& jset) {
    Bytes clean(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(jset_bytes(jset)));
    JsetHeader header;
    std::memcpy(&header, clean.data(), sizeof header);
    const auto clear_behind = [](auto& field, const Key& key) {
        std::fill(field.begin() + key.words(), field.end(), Le<std::uint64_t>(0));
    };
    clear_behind(header.uuid_bucket, jset.uuid_bucket);
    clear_behind(header.btree_root, jset.btree_root);
    header.pad.fill(0);
    std::memcpy(clean.data(), &header, sizeof header);
    header.csum = crc64(std::span(clean).subspan(8));
    std::memcpy(clean.data(), &header, sizeof header);
    return clean;
}

class CacheDevice {
public:
    CacheDevice(Image& image, const Superblock& sb)
        : image_(image), geometry_(sb.geometry()), magic_(sb.set_uuid.magic()) {}

    void check_journal();
    void check_priorities();
    void check_uuid_table();
    void check_tree() { walk(newest_.btree_root, newest_.btree_level); }

    std::size_t entries() const { return entries_; }
    std::size_t nodes() const { return nodes_; }
    std::size_t keys() const { return keys_; }
    unsigned level() const { return newest_.btree_level; }

private:
    void check_slot(std::uint32_t bucket);
    void check_entry(std::span<const std::byte> bytes, const Jset& jset);
    void check_set(const Bytes& node, const Bset& set, std::uint64_t seq, std::uint64_t seed);
    void walk(const Key& pointer, unsigned level);
    // Recovery's view of a child pointer (format section 13.2): raises the generation of its
    // bucket.
    void note(const Key& key);
    bool followed(const Key& key) const;

    Gen& gen_of(const Key& key) { return gens_[geometry_.bucket_of(key.ptr().sector())]; }

    Image& image_;
    Geometry geometry_;
    std::uint64_t magic_;
    Jset newest_;
    std::vector<Gen> gens_;
    std::size_t entries_ = 0;
    std::size_t nodes_ = 0;
    std::size_t keys_ = 0;
};

void CacheDevice::check_entry(std::span<const std::byte> bytes, const Jset& jset) {
    ++entries_;
    const std::string what = "journal entry " + std::to_string(jset.seq);
    const Bytes clean = without_arbitrary_words(bytes, jset);
    Bytes again(jset_bytes(jset));
    encode_jset(jset, magic_, again);
    same(clean, again, what);
    EXPECT_TRUE(validate_node_key(jset.btree_root, geometry_)) << what;
    EXPECT_TRUE(validate_node_key(jset.uuid_bucket, geometry_)) << what;
    for (const Key& key : jset.keys) EXPECT_TRUE(validate_extent_key(key, geometry_)) << what;
    if (jset.seq > newest_.seq) newest_ = jset;
}

void CacheDevice::check_slot(std::uint32_t bucket) {
    const Bytes bytes = image_.read(geometry_.bucket_start(bucket), geometry_.bucket_sectors);
    std::span<const std::byte> rest = bytes;
    while (!rest.empty()) {
        const Result<Jset> jset = decode_jset(rest, magic_);
        if (!jset) break;
        check_entry(rest, *jset);
        const std::size_t used =
            std::size_t{geometry_.blocks(jset_bytes(*jset))} * geometry_.block_bytes();
        rest = rest.subspan(std::min(used, rest.size()));
    }
}

void CacheDevice::check_journal() {
    for (std::uint32_t i = 0; i < geometry_.njournal; ++i) check_slot(geometry_.first_bucket + i);
    ASSERT_GT(entries_, 0u);
}

void CacheDevice::check_priorities() {
    std::uint64_t bucket = newest_.prio_bucket[0];
    for (std::uint32_t i = 0; i < geometry_.prio_buckets(); ++i) {
        ASSERT_LT(bucket, geometry_.nbuckets);
        const Bytes bytes =
            image_.read(bucket * geometry_.bucket_sectors, geometry_.metadata_sectors());
        const Result<PrioSetView> view = decode_prio_set(bytes, magic_, geometry_);
        ASSERT_TRUE(view) << view.error().what;
        for (const PrioEntry& entry : view->entries) gens_.push_back(Gen(entry.gen));

        // The tail behind the last whole entry is under the checksum as well, so it is kept.
        Bytes again = bytes;
        std::fill_n(again.begin(), sizeof(PrioHeader) + view->entries.size_bytes(), std::byte{0});
        std::copy(view->entries.begin(), view->entries.end(),
                  prio_entries(again, geometry_).begin());
        seal_prio_set(again, view->seq, view->next_bucket, magic_);
        same(bytes, again, "priority bucket " + std::to_string(bucket));
        bucket = view->next_bucket;
    }
    gens_.resize(geometry_.nbuckets);
}

void CacheDevice::check_uuid_table() {
    const Key& key = newest_.uuid_bucket;
    const Bytes bytes = image_.read(key.ptr().sector(), key.size());
    ASSERT_EQ(bytes.size(), geometry_.metadata_bytes());
    const auto entries = decode_uuid_table(bytes, newest_.version, geometry_);
    EXPECT_FALSE(entries[0].is_free());
    Bytes again(bytes.size());
    encode_uuid_table(entries, again);
    same(bytes, again, "uuid table");
}

void CacheDevice::check_set(const Bytes& node, const Bset& set, std::uint64_t seq,
                            std::uint64_t seed) {
    EXPECT_EQ(set.version, 1u);
    const std::size_t start = std::size_t{set.block} * geometry_.block_bytes();
    const std::size_t size = bset_bytes(set.keys);
    const auto from = node.begin() + static_cast<std::ptrdiff_t>(start);
    Bytes again(size);
    encode_bset(set.keys, seq, magic_, seed, again);
    same(Bytes(from, from + static_cast<std::ptrdiff_t>(size)), again,
         "set at block " + std::to_string(set.block));
    keys_ += set.keys.size();
}

void CacheDevice::note(const Key& key) {
    if (gen_of(key).newer_than(key.ptr().gen()) == 0) gen_of(key) = key.ptr().gen();
}

bool CacheDevice::followed(const Key& key) const {
    const Gen gen = gens_[geometry_.bucket_of(key.ptr().sector())];
    return key.pos() != kPosZero && gen.newer_than(key.ptr().gen()) == 0;
}

void CacheDevice::walk(const Key& pointer, unsigned level) {
    ASSERT_TRUE(validate_node_key(pointer, geometry_));
    const Bytes bytes = image_.read(pointer.ptr().sector(), pointer.size());
    std::uint32_t block = 0;
    const Result<NodeImage> node =
        decode_node(bytes, magic_, pointer.ptr().raw(), geometry_, false, &block);
    ASSERT_TRUE(node) << node.error().what << " at sector " << pointer.ptr().sector() << ", block "
                      << block;
    ++nodes_;
    std::multimap<Pos, Key> children;
    for (const Bset& set : node->sets) {
        check_set(bytes, set, node->seq, pointer.ptr().raw());
        for (const Key& key : set.keys) {
            EXPECT_LE(key.pos(), pointer.pos());
            if (level == 0) {
                EXPECT_TRUE(validate_extent_key(key, geometry_));
            } else {
                ASSERT_TRUE(validate_node_key(key, geometry_));
                children.emplace(key.pos(), key);
            }
        }
    }
    // Records of freed nodes come first, at position zero, and make old pointers stale.
    for (const auto& [pos, key] : children) note(key);
    for (const auto& [pos, key] : children) {
        if (followed(key)) walk(key, level - 1);
    }
}

void check_image(Image& image, bool must_be_bcache) {
    ASSERT_TRUE(image.is_open());
    const Bytes bytes = image.read(kSuperblockSector, kSuperblockBytes / 512);
    ASSERT_EQ(bytes.size(), kSuperblockBytes);
    if (!must_be_bcache && !has_superblock_magic(bytes)) return;
    const Result<Superblock> sb = decode_superblock(bytes, image.sectors(), 1);
    ASSERT_TRUE(sb) << sb.error().what;
    const auto again = encode_superblock(*sb);
    same(bytes, again, "superblock");
    if (sb->is_backing()) return;

    CacheDevice cache(image, *sb);
    ASSERT_NO_FATAL_FAILURE(cache.check_journal());
    ASSERT_NO_FATAL_FAILURE(cache.check_priorities());
    cache.check_uuid_table();
    ASSERT_NO_FATAL_FAILURE(cache.check_tree());
    EXPECT_GT(cache.nodes(), cache.level());
    testing::Test::RecordProperty("entries", static_cast<int>(cache.entries()));
    testing::Test::RecordProperty("nodes", static_cast<int>(cache.nodes()));
    testing::Test::RecordProperty("keys", static_cast<int>(cache.keys()));
}

class GoldenImages : public testing::TestWithParam<std::string> {};

TEST_P(GoldenImages, EveryStructureIsTheSameAfterDecodingAndEncoding) {
    const auto images = images_of(GetParam());
    ASSERT_GE(images.size(), 2u);
    if (!can_unpack()) GTEST_SKIP() << images.size() << " images not checked: no zstd";
    for (const auto& path : images) {
        SCOPED_TRACE(path.string());
        Image image(path);
        // Members of an array hold pieces of the array's content.
        check_image(image, !path.filename().string().starts_with("md"));
    }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
    std::string name = info.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Kernel, GoldenImages, testing::ValuesIn(set_names()), test_name);

}  // namespace
}  // namespace uc::golden
