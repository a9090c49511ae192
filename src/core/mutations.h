#pragma once

#include "base/mutations.h"

namespace uc::core {
using uc::Mutations;
}
