// Checks of the tree in memory, for tests and the simulator (format section 13.5).

#include <fmt/format.h>

#include "index/tree.h"
#include "ondisk/validate.h"

namespace uc::index {

using ondisk::Key;

std::vector<const Node*> Tree::nodes_in_memory() const {
    std::vector<const Node*> nodes;
    for (const auto& [id, node] : nodes_) nodes.push_back(node.get());
    return nodes;
}

std::string Tree::describe() const {
    return fmt::format(
        "{} nodes, {} bytes, {} leaves to write, {} writes under way, wanted up to {}",
        nodes_.size(), memory_, pinned_.size(), writes_in_background_, wanted_seq_);
}

void Tree::check_invariants(std::vector<std::string>& broken) const {
    for (const auto& [id, node] : nodes_) {
        const std::uint64_t at = parts_.table.bucket_of(node->key.ptr());
        if (parts_.table.stale(node->key.ptr())) {
            broken.push_back(fmt::format("node in bucket {} is stale", at));
        }
        if (parts_.table.at(static_cast<BucketIndex>(at)).use != alloc::Use::node) {
            broken.push_back(fmt::format("bucket {} of a node is not marked as one", at));
        }
        if (!node->is_leaf()) {
            if (node->children.empty() || node->children.rbegin()->first != node->pos()) {
                broken.push_back(fmt::format("node in bucket {}: last child ends elsewhere", at));
            }
            for (const auto& [pos, child] : node->children) {
                if (child.node == nullptr || child.node->key == child.key) continue;
                broken.push_back(fmt::format("node in bucket {}: a child's key differs", at));
            }
            continue;
        }
        if (node->unwritten.empty() != (node->pin == 0)) {
            broken.push_back(fmt::format("leaf in bucket {}: pin without unwritten keys", at));
        }
        for (const Key& key : node->extents) {
            const Result<void> valid = ondisk::validate_extent_key(key, geometry_);
            if (!valid)
                broken.push_back(fmt::format("leaf in bucket {}: {}", at, valid.error().what));
            if (key.pos() > node->pos()) {
                broken.push_back(fmt::format("leaf in bucket {}: key behind its end", at));
            }
        }
    }
}

}  // namespace uc::index
