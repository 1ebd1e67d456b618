#include "analysis/work/obstacles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "hooked/core/error.h"

namespace hooked {

std::optional<Part> first_in(const ModelConfig& config, const Obstacles& obstacles) {
  const auto found =
      std::ranges::find_if(obstacles.parts, [&](Part part) { return has_anywhere(config, part); });
  return found == obstacles.parts.end() ? std::nullopt : std::optional(*found);
}

std::string words_of(const Obstacles& obstacles) {
  std::vector<std::string_view> words;
  for (const Part part : obstacles.parts) words.push_back(words_of(part));
  return fmt::format("{}", fmt::join(words, "; "));
}

void require_free_of(const ModelConfig& config, std::string_view where, const Obstacles& obstacles) {
  const std::optional<Part> found = first_in(config, obstacles);
  if (!found) return;
  throw HookError(where,
                  fmt::format("this model has {}: {}; expected a model that has none{}{}", words_of(*found),
                              obstacles.because, obstacles.instead.empty() ? "" : "; ", obstacles.instead));
}

}  // namespace hooked
