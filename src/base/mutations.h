// Deliberate faults for tests that must fail: each breaks one rule of docs/invariants.md. What the
// simulator cannot tell from the sound engine, it does not check.
//
// They exist only in the libraries uc_*_mutable, which are built from the same sources with
// UC_MUTATIONS defined and linked into the simulator alone. Everywhere else has() is a constant and
// the compiler drops the faulty branch.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace uc {

// name, number of the rule it breaks, what it does
#define UC_MUTATION_LIST(X)                                                                      \
    X(skip_journal_flush, 1, "journal entry without a flush of the device before it")            \
    X(leaf_without_data_flush, 2, "leaf written before the data that it names are durable")      \
    X(skip_dirty_state, 3, "dirty data while the backing superblock says clean")                 \
    X(dirty_state_late, 3, "backing superblock says dirty only after the first dirty write")     \
    X(clean_state_early, 4, "backing superblock says clean before the cleared bits are durable") \
    X(record_not_durable, 5, "backing written before the record of invalidation is durable")     \
    X(record_after_backing, 5, "record of invalidation made after the write to backing")         \
    X(record_forgotten, 5, "bypassed write leaves clean cached data in place")                   \
    X(dirty_replaced_before_flush, 6, "dirty extent dropped before backing was flushed")         \
    X(clean_key_before_backing, 7,                                                               \
      "write-through offers data to the cache before backing has them")                          \
    X(fill_before_flush, 7, "clean key before what backing has is durable")                      \
    X(backing_before_dirty_key, 8, "write to backing overtakes the dirty key below it")          \
    X(writeback_before_key, 8, "written back before the key is durable")                         \
    X(clear_dirty_before_flush, 9, "DIRTY cleared without a flush of backing")                   \
    X(reuse_before_table, 10, "bucket reused, its new generation never written")                 \
    X(table_after_reuse, 10, "bucket reused, then the table written")                            \
    X(reuse_before_entry, 10, "bucket reused before an entry points at the new table")           \
    X(gen_kept, 10, "bucket reused with its old generation")                                     \
    X(old_table_freed_early, 10, "old priority table freed before the entry of the new one")     \
    X(discard_before_table, 10, "bucket discarded before its new generation is durable")         \
    X(open_without_cache_flush, 11, "what a dead process left in the cache's cache trusted")     \
    X(attach_without_flush, 11, "the same for the backing device")                               \
    X(node_without_fua, 12, "new node not durable before what points at it")                     \
    X(forget_freed_record, 13, "parent update without the record of the freed node")             \
    X(free_before_parent, 13, "old node freed before its parent names the new ones")             \
    X(pin_dropped_before_leaf, 15, "journal pin dropped before the leaf is written")             \
    X(append_without_fua, 15, "journal pin dropped before the appended set is durable")          \
    X(split_forgets_pin, 15, "pin of unwritten keys lost in a split")                            \
    X(tail_too_new, 15, "last_seq claims that no older entry is needed")                         \
    X(slot_reused_early, 16, "ring slot reused on the word of an entry that is not durable")     \
    X(append_only_first_set, 17, "a leaf's further sets are forgotten")                          \
    X(superblock_before_uuid, 18, "superblock names a set that does not know the device")        \
    X(superblock_without_fua, 19, "change of a backing superblock not durable")                  \
    X(gens_without_wrap, 20, "generations compared as plain numbers")                            \
    X(replay_skips_entry, 24, "replay leaves out an entry")                                      \
    X(replay_reversed, 24, "replay in the wrong order")                                          \
    X(accept_journal_gap, 24, "missing journal entry passed over")                               \
    X(read_without_gen_check, 26, "read of a bucket that was reused meanwhile believed")         \
    X(flush_before_journal, 30, "flush answered before the journal is durable")                  \
    X(entry_without_fua, 30, "journal entry taken for durable when it is only written")          \
    X(flush_error_forgotten, 30, "failed flush of backing answered as done")                     \
    X(fua_before_journal, 31, "dirty FUA write answered before its key is durable")              \
    X(fua_lost_below, 31, "FUA not passed to backing")                                           \
    X(ack_before_key, 32, "dirty write answered before its key is in the index")                 \
    X(writeback_clears_newer, 32, "write-back clears DIRTY of data written meanwhile")           \
    X(writeback_without_lock, 32, "write-back beside a user's write of the same range")          \
    X(fill_not_cancelled, 33, "fill survives a write that began after it")                       \
    X(fill_during_write, 33, "fill begun while a write of the range is in flight")               \
    X(zeroes_keep_extent, 34, "zeroes and discards of a flash-only volume change nothing")       \
    X(old_data_for_dirty, 35, "failed read of dirty data answered from backing")                 \
    X(detach_with_dirty, 37, "detached before write-back is complete")                           \
    X(older_copy_taken, 38, "an older copy of the cache device is taken back")                   \
    X(loss_not_told, 39, "flush after an outage hides that writes are lost")                     \
    X(lost_range_readable, 39, "old data read where a lost write was")                           \
    X(backing_loss_not_told, 39, "flush hides what a backing device lost while away")            \
    X(failed_flush_of_another, 9, "a flush that failed for somebody else is not counted")        \
    X(failed_cache_flush_forgiven, 2, "leaves are written after a failed cache flush")

enum class Mutation : std::uint8_t {
    none,
#define UC_MUTATION(name, rule, what) name,
    UC_MUTATION_LIST(UC_MUTATION)
#undef UC_MUTATION
};

struct MutationFacts {
    Mutation mutation;
    std::string_view name;
    unsigned rule;  // of docs/invariants.md
    std::string_view what;
};

inline constexpr MutationFacts kMutations[] = {
#define UC_MUTATION(name, rule, what) {Mutation::name, #name, rule, what},
    UC_MUTATION_LIST(UC_MUTATION)
#undef UC_MUTATION
};

constexpr std::optional<Mutation> mutation_named(std::string_view name) {
    for (const MutationFacts& facts : kMutations) {
        if (facts.name == name) return facts.mutation;
    }
    return std::nullopt;
}

// At most one fault is on.
class Mutations {
public:
    constexpr Mutations() = default;
    constexpr explicit Mutations(Mutation on) : on_(on) {}

#ifdef UC_MUTATIONS
    constexpr bool has(Mutation mutation) const {
        return on_ == mutation;
    }
#else
    constexpr bool has(Mutation) const {
        return false;
    }
#endif

private:
    Mutation on_ = Mutation::none;
};

}  // namespace uc
