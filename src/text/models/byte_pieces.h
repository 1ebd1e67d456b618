#pragma once

#include <cstdint>
#include <vector>

#include "text/vocabulary.h"

namespace hooked {

/// The ids of the pieces `<0x00>` to `<0xFF>`, -1 where there is none.
std::vector<std::int64_t> byte_piece_ids(const Vocabulary& vocabulary);

}  // namespace hooked
