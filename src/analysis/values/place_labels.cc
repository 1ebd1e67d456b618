#include "analysis/values/place_labels.h"

#include <set>

#include "hooked/core/axis.h"
#include "hooks/held_columns.h"

namespace hooked {
namespace {

bool is_of_tokens(const GridAxis& axis) {
  const auto named = parse_axis(axis.name);
  return named && counts_tokens(*named);
}

}  // namespace

std::vector<std::string> place_labels(const GridAxis& axis) {
  if (!is_of_tokens(axis)) return axis.labels;
  std::vector<std::string> places;
  for (const std::string& label : axis.labels) places.push_back(label.substr(0, label.find(' ')));
  // Names of places may have blanks of their own.
  const bool unique = std::set<std::string>(places.begin(), places.end()).size() == places.size();
  return unique ? places : axis.labels;
}

std::string place_label(const GridAxis& axis, std::int64_t place) {
  const auto number = static_cast<std::size_t>(place);
  return is_of_tokens(axis) ? place_labels(axis)[number] : axis.labels[number];
}

}  // namespace hooked
