#include "families/shared/alibi.h"

#include <bit>

#include "hooked/core/model_config.h"

namespace hooked {

std::vector<double> appended_alibi_slopes(std::int64_t n_heads) {
  const auto below = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n_heads)));
  std::vector<double> slopes = geometric_alibi_slopes(below);
  const std::vector<double> finer = geometric_alibi_slopes(2 * below);
  for (std::size_t i = 0; static_cast<std::int64_t>(slopes.size()) < n_heads; i += 2)
    slopes.push_back(finer[i]);
  return slopes;
}

std::vector<double> halved_alibi_slopes(std::int64_t n_heads) {
  const auto above = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n_heads)));
  const std::vector<double> all = geometric_alibi_slopes(above);
  if (above == n_heads) return all;
  std::vector<double> slopes;
  for (const std::size_t first : {1, 0}) {
    for (std::size_t i = first; i < all.size(); i += 2) slopes.push_back(all[i]);
  }
  slopes.resize(static_cast<std::size_t>(n_heads));
  return slopes;
}

}  // namespace hooked
