#include "cli/grid_output.h"

#include <string>

namespace hooked::cli {

Json grid_json(const Grid& grid) {
  const std::string text = grid.to_json();
  return parse_json(text, {.bytes = text.size()});
}

}  // namespace hooked::cli
