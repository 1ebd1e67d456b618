#pragma once

#include <fmt/format.h>

#include <sstream>
#include <string_view>

#include "core/json.h"
#include "hooked/analysis/grid.h"

namespace hooked::cli {

/// A grid as Grid::to_json writes it.
Json grid_json(const Grid& grid);

/// A grid without the places at the end of an axis that have no numbers because Ctrl-C ended the run.
Grid without_missing(const Grid& grid, std::string_view axis);

/// Writes a value that prints itself, a grid's tables or a lens's rows, to stdout.
template <typename Printed>
void print_printed(const Printed& value) {
  std::ostringstream text;
  text << value;
  fmt::print("{}", text.str());
}

}  // namespace hooked::cli
