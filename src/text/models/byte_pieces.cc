#include "text/models/byte_pieces.h"

#include <fmt/format.h>

namespace hooked {

std::vector<std::int64_t> byte_piece_ids(const Vocabulary& vocabulary) {
  std::vector<std::int64_t> ids;
  ids.reserve(256);
  for (int byte = 0; byte < 256; ++byte)
    ids.push_back(vocabulary.find(fmt::format("<0x{:02X}>", byte)).value_or(-1));
  return ids;
}

}  // namespace hooked
