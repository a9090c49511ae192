// Deliberate faults for tests that must fail: each breaks one rule of ordering that crash safety
// rests on. All off in every product path; only the simulator and unit tests set them.
#pragma once

namespace uc {

struct Mutations {
    bool skip_journal_flush = false;                // no device flush before a journal entry
    bool reuse_before_gen_durable = false;          // hand out buckets before the table is durable
    bool clear_dirty_before_backing_flush = false;  // mark clean without flushing backing
    bool fill_wins_against_write = false;           // a fill ignores writes that came meanwhile
    bool ack_before_key = false;             // answer a flush without waiting for the journal
    bool skip_durable_invalidation = false;  // write backing over cached data at once
    bool skip_freed_node_record = false;     // parent update without the record at ZERO
    bool skip_dirty_state = false;           // dirty data while the superblock says clean
};

}  // namespace uc
