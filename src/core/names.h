// Names of volumes: what clients put into a URI, a path or fstab.
//
// A name must lead to the same data whatever the order of devices on a command line, and whatever
// else joins the set later. So it is made of what the set itself remembers, never of an order of
// arrival: the label if it is the only one of its kind, else "bcache<N>" with the volume's index in
// the uuid table, which it keeps as long as it is attached. A device that runs without the set has
// no index; it goes by its uuid.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/units.h"
#include "ondisk/uuid.h"

namespace uc::core {

// Null if a label may be given to a volume; else what is wrong with it. Labels that other tools
// wrote need not keep to this.
const char* label_problem(std::string_view label);

// A device or volume in the table, other than `self`, that has the label; null if there is none.
const ondisk::UuidEntry* owner_of_label(std::span<const ondisk::UuidEntry> table,
                                        std::string_view label, const ondisk::Uuid& self);

// The name of a volume with index `inode`.
std::string volume_name(std::span<const ondisk::UuidEntry> table, const std::string& label,
                        Inode inode, const ondisk::Uuid& uuid);
// The name of a device that does not belong to the set.
std::string stranger_name(const ondisk::Uuid& uuid);

}  // namespace uc::core
