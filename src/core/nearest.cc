#include "core/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace hooked {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

namespace {

// A name in a hostile file can be long; comparing its beginning is enough for a suggestion.
constexpr std::size_t kCompared = 256;

}  // namespace

std::string nearest(std::string_view wanted, std::span<const std::string> candidates) {
  wanted = wanted.substr(0, kCompared);
  const auto best = std::min_element(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
    return edit_distance(wanted, a.substr(0, kCompared)) < edit_distance(wanted, b.substr(0, kCompared));
  });
  return best == candidates.end() ? std::string() : *best;
}

}  // namespace hooked
