// Part of a tree that breaks every rule of the room table; only tests/architecture reads it.
#pragma once

#include "core/private.h"
#include "hooked/engine/engine.h"

namespace hooked {
int upward();
}  // namespace hooked
