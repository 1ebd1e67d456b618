#pragma once

#include <string>
#include <string_view>

#include "io/pickle/pickle_document.h"

namespace hooked {

/// What the pickle `bytes` (protocol 2 to 5) describes. `where` is the archive's name for messages.
///
/// Only opcodes and globals that describe tensors and plain containers are known; nothing is imported, called
/// or run. Throws CheckpointError with the byte of the pickle and the opcode or global that is refused.
/// Format: Python's Lib/pickletools.py.
PickleDocument read_pickle(std::string bytes, std::string_view where);

}  // namespace hooked
