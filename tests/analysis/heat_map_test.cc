#include "hooked/analysis/heat_map.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace hooked::heat_map_test {
namespace {

using testing::HasSubstr;

std::size_t count(const std::string& text, std::string_view word) {
  std::size_t n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

std::string map_of(const std::vector<double>& values) {
  std::vector<std::string> labels(values.size(), "a<b&c");
  return heat_map_svg(
      Grid(at::tensor(values, at::kDouble), {{"head", labels}}, {.title = "A \"title\"", .unit = "<u>"}));
}

/// The fill of the cell whose tooltip says `value`.
std::string fill_of(const std::string& svg, const std::string& value) {
  const auto tip = svg.find(": " + value + "</title></rect>");
  const auto fill = svg.rfind("fill=\"", tip);
  return tip == std::string::npos ? "" : svg.substr(fill + 6, 7);
}

TEST(HeatMap, ZeroIsWhiteAndTheExtremesAreDark) {
  const auto svg = map_of({-4, 0, 4});
  EXPECT_EQ(fill_of(svg, "-4"), "#67001f");
  EXPECT_EQ(fill_of(svg, "0"), "#ffffff");
  EXPECT_EQ(fill_of(svg, "4"), "#053061");
}

TEST(HeatMap, ColoursAreCentredOnZeroWhateverTheNumbersAre) {
  EXPECT_EQ(fill_of(map_of({0, 1, 8}), "8"), "#053061");
  EXPECT_EQ(fill_of(map_of({0, 1, 8}), "0"), "#ffffff");
  EXPECT_EQ(fill_of(map_of({0, 0}), "0"), "#ffffff");
}

TEST(HeatMap, EscapesTextAndShowsTitleAndUnit) {
  const auto svg = map_of({1, 2});
  EXPECT_THAT(svg, HasSubstr("A &quot;title&quot;"));
  EXPECT_THAT(svg, HasSubstr("&lt;u&gt;"));
  EXPECT_THAT(svg, HasSubstr("a&lt;b&amp;c"));
  EXPECT_THAT(svg, testing::Not(HasSubstr("a<b")));
}

TEST(HeatMap, NumbersThatAreNotFiniteAreGrey) {
  const auto svg = map_of({std::numeric_limits<double>::infinity(), 1});
  EXPECT_EQ(fill_of(svg, "inf"), "#c8c8c8");
  EXPECT_EQ(fill_of(svg, "1"), "#053061");
}

TEST(HeatMap, AThirdAxisGivesPanels) {
  const Grid grid(at::arange(12, at::kDouble).view({3, 2, 2}),
                  {{"layer", {"0", "1", "2"}}, {"pos", {"0", "1"}}, {"head", {"0", "1"}}},
                  {.title = "t", .unit = "u"});
  const auto svg = heat_map_svg(grid);
  for (const char* panel : {">layer 0<", ">layer 1<", ">layer 2<"}) EXPECT_EQ(count(svg, panel), 1u) << panel;
  EXPECT_EQ(count(svg, "</title></rect>"), 12u);
}

}  // namespace
}  // namespace hooked::heat_map_test
