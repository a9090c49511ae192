// Order matters in three places. Generations come from the table, then from pointers newer than it,
// and the records of freed nodes in a node count before its children are looked at, because they
// make old child pointers stale. Leaf keys enter the map in the order of the tree, journal keys
// after them. Whether an extent is usable is judged last, with the final generations: an unusable
// one still hides what it covers.

#include "sim/disk_checker.h"

#include <algorithm>
#include <utility>

#include "io/buffer.h"
#include "ondisk/bset.h"
#include "ondisk/prio_set.h"
#include "ondisk/validate.h"
#include "sim/journal_image.h"
#include "sim/sha256.h"

namespace uc::sim {

namespace {

constexpr std::size_t kProblemLimit = 20;
constexpr unsigned kMaxStaleness = 96;
constexpr unsigned kMaxLevel = 8;

std::string text_of(const ondisk::Key& key) {
    return std::to_string(key.inode()) + ":" + std::to_string(key.start()) + "-" +
           std::to_string(key.end()) + (key.dirty() ? " dirty" : "") + " -> sector " +
           std::to_string(key.ptr().sector()) + " gen " + std::to_string(key.ptr().gen().raw());
}

}  // namespace

DiskChecker::DiskChecker(const ByteSource& cache) : cache_(cache) {
    if (!read_superblock() || blank_) return;
    const ondisk::Jset* const newest = read_journal();
    if (newest == nullptr || !read_priorities(newest->prio_bucket[0])) return;
    read_uuids(*newest);
    level_ = newest->btree_level;
    walk(newest->btree_root, level_, ondisk::kPosZero);
    for (const ondisk::Jset& entry : entries_) {
        for (const ondisk::Key& key : entry.keys) {
            if (key.size() == 0) problem("journal key of size 0");
            if (in_range(key)) note_gen(key);
            leaf_keys_.push_back(key);
        }
    }
    for (const ondisk::Key& key : leaf_keys_) {
        if (key.size() != 0) devices_[key.inode()].insert(key);
    }
    claim_all();
    check_extents();
}

void DiskChecker::problem(std::string text) {
    if (problems_.size() < kProblemLimit) problems_.push_back(std::move(text));
}

bool DiskChecker::read_sectors(std::uint64_t sector, std::span<std::byte> out) const {
    return cache_.read(sector * kSectorBytes, out);
}

bool DiskChecker::read_superblock() {
    io::Buffer buffer(ondisk::kSuperblockBytes);
    if (!read_sectors(ondisk::kSuperblockSector, buffer.span())) {
        problem("superblock unreadable");
        return false;
    }
    auto sb = ondisk::decode_superblock(buffer.span(), cache_.bytes() / kSectorBytes, 1);
    if (!sb) {
        problem(std::string("superblock: ") + sb.error().what);
        return false;
    }
    sb_ = *sb;
    if (!sb_.is_cache()) {
        problem("not a cache device");
        return false;
    }
    geometry_ = sb_.geometry();
    blank_ = !sb_.sync();
    return true;
}

const ondisk::Jset* DiskChecker::read_journal() {
    const JournalImage journal(geometry_, sb_.set_uuid.magic(),
                               [this](std::uint64_t sector, std::span<std::byte> out) {
                                   return read_sectors(sector, out);
                               });
    const auto needed = needed_entries(journal.scan_all(), sb_.discard(), problems_);
    std::vector<std::string> ignored;
    const auto found = needed_entries(journal.kernel_search(), sb_.discard(), ignored);
    if (found != needed) problem("the kernel's search of the journal does not find all entries");
    if (needed.empty()) return nullptr;
    for (const ondisk::Jset* entry : needed) entries_.push_back(*entry);
    newest_seq_ = entries_.back().seq;
    note_entries(journal);
    return &entries_.back();
}

// Without an entry in the middle there is a gap. Not so behind the last whole one of its slot: if
// that slot is the newest one, the damage looks like a write that was under way.
void DiskChecker::note_entries(const JournalImage& journal) {
    // Where slots are discarded, a gap at the beginning is taken for a slot that is gone (4.8).
    const JournalSeq first = entries_.front().seq + (sb_.discard() ? 1 : 0);
    for (std::size_t slot = 0; slot < journal.slots().size(); ++slot) {
        const auto& entries = journal.slots()[slot];
        const auto newest = [this](const ondisk::Jset& e) { return e.seq == newest_seq_; };
        if (std::ranges::any_of(entries, newest)) continue;
        std::uint64_t at =
            geometry_.bucket_start(geometry_.first_bucket + static_cast<std::uint32_t>(slot));
        for (const ondisk::Jset& entry : entries) {
            const std::uint64_t bytes = ondisk::jset_bytes(entry);
            if (entry.seq >= first) places_.push_back({Place::Kind::journal, at, bytes, 0});
            at += std::uint64_t{geometry_.blocks(bytes)} * geometry_.block_sectors;
        }
    }
}

bool DiskChecker::read_priorities(std::uint64_t bucket) {
    buckets_.resize(geometry_.nbuckets);
    mentioned_.resize(geometry_.nbuckets);
    io::Buffer buffer(geometry_.metadata_bytes());
    std::size_t next = 0;
    for (std::uint32_t i = 0; i < geometry_.prio_buckets(); ++i) {
        if (bucket < geometry_.first_bucket || bucket >= geometry_.nbuckets) {
            problem("priority bucket out of range");
            return false;
        }
        if (!read_sectors(geometry_.bucket_start(static_cast<BucketIndex>(bucket)),
                          buffer.span())) {
            problem("IO error reading priorities");
            return false;
        }
        const auto set = ondisk::decode_prio_set(buffer.span(), sb_.set_uuid.magic(), geometry_);
        if (!set) {
            problem(set.error().what);
            return false;
        }
        for (const ondisk::PrioEntry& entry : set->entries) {
            if (next < buckets_.size()) buckets_[next++].gen = Gen(entry.gen);
        }
        buckets_[bucket].use = Use::metadata;
        mentioned_[bucket] = true;
        const std::uint64_t sector = geometry_.bucket_start(static_cast<BucketIndex>(bucket));
        places_.push_back({Place::Kind::priorities, sector, buffer.size(), 0});
        bucket = set->next_bucket;
    }
    return true;
}

void DiskChecker::read_uuids(const ondisk::Jset& newest) {
    const ondisk::Key& key = newest.uuid_bucket;
    if (auto valid = ondisk::validate_node_key(key, geometry_); !valid) {
        problem(std::string("bad uuid pointer: ") + valid.error().what);
        return;
    }
    note_gen(key);
    io::Buffer buffer(geometry_.metadata_bytes());
    if (!read_sectors(key.ptr().sector(), buffer.span())) return problem("uuid table unreadable");
    uuids_ = ondisk::decode_uuid_table(buffer.span(), newest.version, geometry_);
}

bool DiskChecker::in_range(const ondisk::Key& key) const {
    return key.has_ptr() && key.ptr().available() &&
           geometry_.bucket_of(key.ptr().sector()) < geometry_.nbuckets;
}

unsigned DiskChecker::staleness(ondisk::Ptr ptr) const {
    return buckets_[geometry_.bucket_of(ptr.sector())].gen.newer_than(ptr.gen());
}

void DiskChecker::note_sets(const ondisk::NodeImage& image, const ondisk::Key& key) {
    for (const ondisk::Bset& set : image.sets) {
        const bool appended_last = &set == &image.sets.back() && set.block != 0;
        const std::uint64_t sector =
            key.ptr().sector() + std::uint64_t{set.block} * geometry_.block_sectors;
        places_.push_back({Place::Kind::node, sector, ondisk::bset_bytes(set.keys),
                           appended_last ? sizeof(ondisk::BsetHeader) : 0});
    }
}

void DiskChecker::note_gen(const ondisk::Key& key) {
    mentioned_[geometry_.bucket_of(key.ptr().sector())] = true;
    if (!stale(key.ptr())) buckets_[geometry_.bucket_of(key.ptr().sector())].gen = key.ptr().gen();
}

std::optional<std::vector<ondisk::Key>> DiskChecker::read_node(const ondisk::Key& key,
                                                               unsigned level) {
    const std::string where = "bucket " + std::to_string(geometry_.bucket_of(key.ptr().sector()));
    io::Buffer buffer(std::size_t{key.size()} * kSectorBytes);
    if (!read_sectors(key.ptr().sector(), buffer.span())) {
        problem("node unreadable, " + where);
        return std::nullopt;
    }
    std::uint32_t block = 0;
    auto image = ondisk::decode_node(buffer.span(), sb_.set_uuid.magic(), key.ptr().raw(),
                                     geometry_, false, &block);
    if (!image) {
        problem(std::string(image.error().what) + " at " + where + ", block " +
                std::to_string(block) + ", level " + std::to_string(level));
        return std::nullopt;
    }
    note_sets(*image, key);
    std::vector<ondisk::Key> keys;
    for (const ondisk::Bset& set : image->sets) {
        keys.insert(keys.end(), set.keys.begin(), set.keys.end());
    }
    for (const ondisk::Key& one : keys) {
        auto valid = level == 0 ? ondisk::validate_extent_key(one, geometry_)
                                : ondisk::validate_node_key(one, geometry_);
        if (!valid) problem(std::string(valid.error().what) + ": " + text_of(one) + ", " + where);
        if (one.pos() > key.pos()) problem("short btree key, " + where + ": " + text_of(one));
    }
    std::erase_if(keys, [&](const ondisk::Key& one) {
        return level == 0 ? !ondisk::validate_extent_key(one, geometry_).has_value()
                          : !ondisk::validate_node_key(one, geometry_).has_value();
    });
    return keys;
}

void DiskChecker::walk(const ondisk::Key& key, unsigned level, ondisk::Pos lower) {
    if (level > kMaxLevel) return problem("tree too deep");
    if (auto valid = ondisk::validate_node_key(key, geometry_); !valid) {
        return problem(std::string("bad btree root: ") + valid.error().what);
    }
    const auto keys = read_node(key, level);
    if (!keys) return;
    ++nodes_;
    for (const ondisk::Key& one : *keys) {
        if (in_range(one)) note_gen(one);
    }
    note_gen(key);
    node_keys_.push_back(key);
    if (level == 0) {
        check_leaf(*keys, key, lower);
    } else {
        walk_children(*keys, key, level, lower);
    }
}

void DiskChecker::walk_children(const std::vector<ondisk::Key>& keys, const ondisk::Key& parent,
                                unsigned level, ondisk::Pos lower) {
    std::vector<ondisk::Key> children;
    for (const ondisk::Key& key : keys) {
        if (key.pos() == ondisk::kPosZero || !in_range(key)) continue;
        if (staleness(key.ptr()) > kMaxStaleness) problem("key too stale: " + text_of(key));
        if (!stale(key.ptr())) children.push_back(key);
    }
    std::stable_sort(children.begin(), children.end(),
                     [](const auto& a, const auto& b) { return a.pos() < b.pos(); });
    const std::string where =
        ", node in bucket " + std::to_string(geometry_.bucket_of(parent.ptr().sector()));
    if (children.empty()) return problem("interior node without children" + where);
    if (children.back().pos() != parent.pos()) problem("last child ends before its parent" + where);
    for (const ondisk::Key& child : children) {
        if (child.pos() <= lower) problem("children not ascending" + where);
        walk(child, level - 1, lower);
        lower = child.pos();
    }
}

void DiskChecker::check_leaf(const std::vector<ondisk::Key>& keys, const ondisk::Key& node,
                             ondisk::Pos lower) {
    const std::string where =
        ", leaf in bucket " + std::to_string(geometry_.bucket_of(node.ptr().sector()));
    for (const ondisk::Key& key : keys) {
        if (key.size() != 0 && key.start_pos() < lower && key.inode() == lower.inode) {
            problem("extent begins before its leaf" + where + ": " + text_of(key));
        }
        leaf_keys_.push_back(key);
    }
}

void DiskChecker::claim(const ondisk::Key& key, Use use) {
    const std::uint64_t index = geometry_.bucket_of(key.ptr().sector());
    Bucket& bucket = buckets_[index];
    if (stale(key.ptr())) return;
    if (bucket.use != Use::none && (bucket.use != use || use != Use::data)) {
        problem("bucket " + std::to_string(index) + " has two uses, " +
                std::to_string(static_cast<int>(bucket.use)) + " and " +
                std::to_string(static_cast<int>(use)) + ": " + text_of(key));
    }
    bucket.use = use;
}

void DiskChecker::claim_all() {
    for (std::uint32_t i = 0; i < geometry_.njournal; ++i) {
        Bucket& bucket = buckets_[geometry_.first_bucket + i];
        if (bucket.use != Use::none) problem("journal bucket in use");
        bucket.use = Use::metadata;
    }
    if (in_range(entries_.back().uuid_bucket)) claim(entries_.back().uuid_bucket, Use::metadata);
    for (const ondisk::Key& key : node_keys_) claim(key, Use::node);
    for (const ondisk::Key& key : leaf_keys_) {
        if (key.size() != 0 && in_range(key)) claim(key, Use::data);
    }
}

void DiskChecker::check_extents() {
    const std::uint32_t block = geometry_.block_sectors;
    for (const ondisk::Key& key : leaf_keys_) {
        if (key.size() == 0) continue;
        if (auto valid = ondisk::validate_extent_key(key, geometry_); !valid) {
            problem(std::string(valid.error().what) + ": " + text_of(key));
        }
        if (!in_range(key)) continue;
        if (key.start() % block != 0 || key.size() % block != 0 ||
            key.ptr().sector() % block != 0) {
            problem("extent not on blocks: " + text_of(key));
        }
        if (stale(key.ptr())) continue;
        if (key.inode() >= uuids_.size() || uuids_[key.inode()].is_free()) {
            problem("extent of an unknown device: " + text_of(key));
        }
    }
    for (const auto& [inode, map] : devices_) {
        for (const auto& [start, key] : map.extents()) {
            if (!in_range(key) || !stale(key.ptr())) continue;
            if (key.dirty()) problem("stale dirty pointer: " + text_of(key));
            if (staleness(key.ptr()) > kMaxStaleness) problem("key too stale: " + text_of(key));
        }
    }
}

std::optional<Inode> DiskChecker::find(const ondisk::Uuid& uuid) const {
    for (std::size_t i = 0; i < uuids_.size(); ++i) {
        if (uuids_[i].uuid == uuid) return static_cast<Inode>(i);
    }
    return std::nullopt;
}

std::vector<CachedPart> DiskChecker::parts(Inode inode) const {
    std::vector<CachedPart> parts;
    const auto device = devices_.find(inode);
    if (device == devices_.end()) return parts;
    for (const auto& [start, key] : device->second.extents()) {
        if (!in_range(key) || stale(key.ptr())) continue;
        parts.push_back({start, key.end(), key.ptr().sector(), key.dirty()});
    }
    return parts;
}

bool DiskChecker::read_device(Inode inode, const ByteSource* backing, std::uint64_t data_offset,
                              std::uint64_t sector, std::span<std::byte> out) const {
    const std::uint64_t from = sector + data_offset;
    const std::uint64_t to = from + out.size() / kSectorBytes;
    if (backing == nullptr) {
        std::fill(out.begin(), out.end(), std::byte{0});
    } else if (!backing->read(from * kSectorBytes, out)) {
        return false;
    }
    const auto device = devices_.find(inode);
    if (device == devices_.end()) return true;
    const auto& extents = device->second.extents();
    auto at = extents.upper_bound(from);
    if (at != extents.begin()) --at;
    for (; at != extents.end() && at->first < to; ++at) {
        const ondisk::Key& key = at->second;
        if (key.end() <= from || !in_range(key) || stale(key.ptr())) continue;
        const ondisk::Key part = key.part(std::max(from, key.start()), std::min(to, key.end()));
        const auto piece = out.subspan((part.start() - from) * kSectorBytes,
                                       std::size_t{part.size()} * kSectorBytes);
        if (!read_sectors(part.ptr().sector(), piece)) return false;
    }
    return true;
}

std::optional<std::string> DiskChecker::device_sha256(Inode inode, const ByteSource* backing,
                                                      std::uint64_t data_offset,
                                                      std::uint64_t sectors) const {
    constexpr std::uint64_t kStep = 2048;
    io::Buffer buffer(kStep * kSectorBytes);
    Sha256 sum;
    for (std::uint64_t at = 0; at < sectors; at += kStep) {
        const auto piece = buffer.span().first(std::min(kStep, sectors - at) * kSectorBytes);
        if (!read_device(inode, backing, data_offset, at, piece)) return std::nullopt;
        sum.add(piece);
    }
    return sum.finish();
}

}  // namespace uc::sim
