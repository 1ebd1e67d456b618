// Prints docs/activations.md from the table of sites.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "hooked/core/axis.h"
#include "hooked/hooks/site.h"
#include "page.h"

namespace {

// What the axes of that name count, among axes of activations.
std::string counted(std::string_view name) {
  std::string text;
  for (const hooked::AxisRow& axis : hooked::axis_table()) {
    const auto has = [&](const hooked::SiteRow& row) { return row.axes.find(axis.axis).has_value(); };
    if (axis.name != name || !std::ranges::any_of(hooked::site_table(), has)) continue;
    text += fmt::format("{}{}", text.empty() ? "" : "; ", axis.counts);
  }
  return text;
}

std::string axes_text(const hooked::AxisList& axes) {
  std::string text;
  for (const hooked::Axis axis : axes)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", hooked::axis_name(axis));
  return "[" + text + "]";
}

std::string marks(const hooked::SiteRow& row) {
  if (row.wide && row.changes_plan) return "wide, plan";
  return row.wide ? "wide" : row.changes_plan ? "plan" : "";
}

std::string points(std::string_view title, hooked::SiteScope scope) {
  std::string text = fmt::format(
      "\n### {}\n\n| name | word | axes | | exists when | holds |\n|---|---|---|---|---|---|\n", title);
  for (const hooked::SiteRow& row : hooked::site_table()) {
    if (row.scope != scope) continue;
    text += fmt::format("| `{}` | `{}` | {} | {} | {} | {} |\n", row.path, row.word, axes_text(row.axes),
                        marks(row), hooked::when_there(row.part), row.holds);
  }
  return text;
}

}  // namespace

int main(int, char** argv) {
  std::string axes;
  for (const hooked::AxisRow& axis : hooked::axis_table()) {
    const bool first = hooked::parse_axis(axis.name) == axis.axis;
    if (const auto text = counted(axis.name); first && !text.empty())
      axes += fmt::format("| {} | {} |\n", axis.name, text);
  }
  hooked::print_page(
      argv[1], "activations",
      {{"axes", axes},
       {"points", points("Before the first block", hooked::SiteScope::entry) +
                      points("In each block", hooked::SiteScope::block) +
                      points("After an encoder's last block", hooked::SiteScope::encoder_exit) +
                      points("After the last block", hooked::SiteScope::exit)}});
}
