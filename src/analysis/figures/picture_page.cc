#include "analysis/figures/picture_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/figures/picture_text.h"

namespace hooked {
namespace {

// On paper the light colours apply.
constexpr const char* kLightRules = R"(.hooked-picture{color-scheme:light dark}
.hooked-picture text{fill:#222;font-size:12px}
.hooked-picture .page{fill:#fff}
.hooked-picture .title{font-size:15px;font-weight:600}
.hooked-picture .panel-title{font-weight:600}
.hooked-picture .unit{fill:#666;font-size:11px}
.hooked-picture .middle{text-anchor:middle}
.hooked-picture .end{text-anchor:end}
.hooked-picture .frame{fill:none;stroke:#999}
)";
constexpr const char* kDarkRules = R"(.hooked-picture text{fill:#e2e4e8}
.hooked-picture .page{fill:#14171a}
.hooked-picture .unit{fill:#a0a6ad}
.hooked-picture .frame{stroke:#666}
)";

}  // namespace

std::string svg_element(const char* name, double x, double y, double width, double height) {
  return fmt::format("<{} x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\"", name, x, y, width, height);
}

std::string svg_text(double x, double y, std::string_view css_class, std::string_view words,
                     std::string_view more) {
  if (words.empty()) return "";
  return (more.empty() ? fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">", css_class, x, y)
                       : fmt::format("<text class=\"{}\"{}>", css_class, more)) +
         xml_text(words) + "</text>\n";
}

std::string picture_page(const PicturePage& page) {
  const double width =
      std::max({page.right, text_width(page.title, 15) * 1.1, text_width(page.unit, 11) + kPictureMargin}) +
      kPictureMargin;
  return fmt::format(
      "{11}{0}\" role=\"img\" "
      "width=\"{1:.0f}\" height=\"{2:.0f}\" viewBox=\"0 0 {1:.0f} {2:.0f}\" font-family=\"Helvetica, Arial, "
      "'DejaVu Sans', sans-serif\">\n<title>{3}</title>\n<style>\n{4}{5}@media screen and "
      "(prefers-color-scheme:dark){{\n{6}{7}}}\n</style>\n"
      "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n{8}{9}{10}</svg>\n",
      page.css_class, width, page.bottom + kPictureMargin, xml_text(page.title), kLightRules,
      page.rules.light, kDarkRules, page.rules.dark, svg_text(kPictureMargin, 22, "title", page.title),
      svg_text(kPictureMargin, 39, "unit", page.unit), page.body, kPictureStart);
}

}  // namespace hooked
