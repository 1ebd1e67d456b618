#include "hooked/core/part.h"

#include <fmt/format.h>

#include <algorithm>

namespace hooked {
namespace {

/// One row of the table of parts.
struct PartRow {
  bool of_layer;
  bool (*there)(const ModelConfig& config, const BlockPlace& block);
  std::string_view words;
};

namespace scope {
constexpr bool layer = true, model = false;
}  // namespace scope

constexpr PartRow kParts[] = {
#define PART(part, of_what, there, words)                                                    \
  {scope::of_what,                                                                           \
   []([[maybe_unused]] const ModelConfig& c, [[maybe_unused]] const BlockPlace& b) -> bool { \
     return there;                                                                           \
   },                                                                                        \
   words},
#include "hooked/core/parts.inc"
};

const PartRow& row_of(Part part) { return kParts[static_cast<std::size_t>(part)]; }

}  // namespace

bool has(const ModelConfig& config, Part part, const BlockPlace& block) {
  return row_of(part).there(config, block);
}

bool has_anywhere(const ModelConfig& config, Part part) {
  if (!row_of(part).of_layer) return has(config, part);
  return std::ranges::any_of(config.blocks(),
                             [&](const BlockPlace& block) { return has(config, part, block); });
}

std::string when_there(Part part) {
  if (part == Part::always) return "always";
  return fmt::format("the {} has {}", row_of(part).of_layer ? "layer" : "model", words_of(part));
}

std::string_view words_of(Part part) { return row_of(part).words; }

}  // namespace hooked
