// Looks at the disks of a machine that stands still, without the engine: what the kernel would find
// there, and what the model says about it.
#pragma once

#include "sim/machine.h"

namespace uc::sim {

// Judges superblocks, journal, tree and buckets (DiskChecker), the logical content of every volume
// against the model, that clean cached data equals the backing device, and that a backing device
// with dirty data says so.
void audit_disks(Machine& machine);

// The backing device alone holds what the volume should hold (after detach).
void audit_backing_alone(Machine& machine, Target& target);

}  // namespace uc::sim
