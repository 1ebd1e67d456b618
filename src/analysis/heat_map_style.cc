#include "analysis/heat_map_style.h"

#include <fmt/format.h>

namespace hooked {
namespace {

// Every rule begins with .heat-map, so that a picture inside a page changes nothing of the page. On paper the
// light colours hold.
constexpr const char* kStyle = R"(.heat-map{color-scheme:light dark}
.heat-map text{fill:#222;font-size:12px}
.heat-map .page{fill:#fff}
.heat-map .title{font-size:15px;font-weight:600}
.heat-map .panel-title{font-weight:600}
.heat-map .unit{fill:#666;font-size:11px}
.heat-map .middle{text-anchor:middle}
.heat-map .end{text-anchor:end}
.heat-map .lines{fill:#d4d8dc}
.heat-map .frame,.heat-map .band{fill:none;stroke:#999}
.heat-map .band{stroke:#000;stroke-width:1.5;visibility:hidden;pointer-events:none}
.heat-map .square{fill:none;pointer-events:all}
.heat-map .number{fill:currentColor;text-anchor:middle;pointer-events:none}
.heat-map .mark{fill:currentColor;stroke:none;pointer-events:none}
.heat-map .pixels{image-rendering:pixelated}
.heat-map .dark{display:none}
)";
constexpr const char* kDarkStyle = R"(.heat-map text{fill:#e2e4e8}
.heat-map .page{fill:#14171a}
.heat-map .unit{fill:#a0a6ad}
.heat-map .lines{fill:#33383e}
.heat-map .frame{stroke:#666}
.heat-map .band{stroke:#fff}
.heat-map .number{fill:currentColor}
.heat-map .light{display:none}
.heat-map .dark{display:inline}
)";

}  // namespace

std::string heat_map_style(const ColourScale& scale, const std::set<Paint>& used, std::int64_t rows,
                           std::int64_t columns) {
  std::string light = kStyle, dark = kDarkStyle;
  for (const auto& paint : used) {
    light += scale.css_rule(paint, false);
    dark += scale.css_rule(paint, true);
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
  if (!marked.empty()) light += marked + "{visibility:visible;font-weight:700}\n";
  return "<style>\n" + light + "@media screen and (prefers-color-scheme:dark){\n" + dark + "}\n</style>\n";
}

}  // namespace hooked
