#include "analysis/figures/heat_map_style.h"

#include <fmt/format.h>

namespace hooked {
namespace {

constexpr const char* kStyle = R"(.heat-map .lines{fill:#d4d8dc}
.heat-map .band{fill:none;stroke:#000;stroke-width:1.5;visibility:hidden;pointer-events:none}
.heat-map .square{fill:none;pointer-events:all}
.heat-map .number{fill:currentColor;text-anchor:middle;pointer-events:none}
.heat-map .mark{fill:currentColor;stroke:none;pointer-events:none}
.heat-map .pixels{image-rendering:pixelated}
.heat-map .dark{display:none}
)";
constexpr const char* kDarkStyle = R"(.heat-map .lines{fill:#33383e}
.heat-map .band{stroke:#fff}
.heat-map .light{display:none}
.heat-map .dark{display:inline}
)";

}  // namespace

PictureRules heat_map_style(const ColourScale& scale, const std::set<Paint>& used, std::int64_t rows,
                            std::int64_t columns) {
  PictureRules rules{.light = kStyle, .dark = kDarkStyle};
  for (const auto& paint : used) {
    rules.light += scale.css_rule(paint, false);
    rules.dark += scale.css_rule(paint, true);
  }
  std::string marked;
  const auto mark = [&](char axis, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      marked += marked.empty() ? "" : ",\n";
      marked += fmt::format(".heat-map:has(.{0}{1}:hover) .in-{0}{1}", axis, i);
    }
  };
  mark('r', rows);
  mark('c', columns);
  if (!marked.empty()) rules.light += marked + "{visibility:visible;font-weight:700}\n";
  return rules;
}

}  // namespace hooked
