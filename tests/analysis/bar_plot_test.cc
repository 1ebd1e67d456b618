#include "hooked/analysis/bar_plot.h"

#include "hooked/analysis/row_intervals.h"
#include "tests/analysis/picture.h"
#include "tests/support/test.h"

namespace hooked::bar_plot_test {
namespace {

/// A bar as its reader sees it.
struct Bar {
  std::string title, number;
  double x = 0, y = 0, width = 0;
  bool whisker = false;
};

std::vector<Bar> bars_of(const std::string& svg) {
  const SvgElement root = SvgReader::read(svg);
  std::vector<Bar> bars;
  for (const auto* g : root.all([](const auto& e) { return e.name == "g" && e.child("title"); })) {
    Bar bar{.title = g->child("title")->text, .number = g->child("text") ? g->child("text")->text : ""};
    for (const auto* rect : g->all([](const auto& e) { return e.has_class("bar"); })) {
      bar.x = rect->number("x");
      bar.y = rect->number("y");
      bar.width = rect->number("width");
    }
    bar.whisker = !g->all([](const auto& e) { return e.has_class("whisker"); }).empty();
    bars.push_back(bar);
  }
  return bars;
}

TEST(BarPlot, BarsBeginAtZeroAndAreAsLongAsTheirNumbers) {
  const auto bars = bars_of(bar_plot_svg(row_grid({2, -1, 4, kNaN, 0})));
  ASSERT_EQ(bars.size(), 5U);
  EXPECT_NEAR(bars[0].width * 2, bars[2].width, 0.05);
  EXPECT_NEAR(bars[1].width * 2, bars[0].width, 0.05);
  EXPECT_NEAR(bars[0].x, bars[2].x, 0.05);
  EXPECT_NEAR(bars[1].x + bars[1].width, bars[0].x, 0.05) << "to the left of 0";
  EXPECT_LT(bars[0].y, bars[1].y) << "the first is at the top";
  EXPECT_EQ(bars[3].width, 0);
  EXPECT_EQ(bars[3].number, "NaN");
  EXPECT_EQ(bars[4].width, 0);
  EXPECT_EQ(bars[2].title, "column 2: 4");
}

TEST(BarPlot, InfinitiesReachTheEnd) {
  const auto bars = bars_of(bar_plot_svg(row_grid({1, kInfinity, -kInfinity})));
  EXPECT_GE(bars[1].width, bars[0].width);
  EXPECT_EQ(bars[1].number, "∞");
}

TEST(BarPlot, TwoAxesAreBarsOfSeveralColours) {
  const std::string svg = bar_plot_svg(grid_of(at::tensor({1.0, 2.0, 3.0, 4.0}, at::kDouble).view({2, 2})));
  const auto bars = bars_of(svg);
  ASSERT_EQ(bars.size(), 4U);
  EXPECT_EQ(bars[0].title, "row 0, column 0: 1");
  EXPECT_EQ(bars[1].title, "row 1, column 0: 3");
  EXPECT_THAT(svg, AllOf(HasSubstr(".bar-plot .s0{"), HasSubstr(".bar-plot .s1{")));
}

TEST(BarPlot, RangesAreWhiskers) {
  const Grid rows(at::tensor({1.0, 2.0, 3.0, 5.0, 2.0, 4.0}, at::kDouble).view({3, 2}),
                  {{"row", numbered(3)}, {"part", {"a", "b"}}}, {.title = "A title", .unit = "a unit"});
  const std::string svg = bar_plot_svg(mean_interval(rows));
  for (const Bar& bar : bars_of(svg)) {
    EXPECT_TRUE(bar.whisker);
    EXPECT_THAT(bar.title, HasSubstr(" ["));
  }
  EXPECT_THAT(svg, HasSubstr("whiskers: 95 % bootstrap over 3 rows"));
}

TEST(BarPlot, OtherGridsAreRefused) {
  EXPECT_THROW(bar_plot_svg(Grid(at::tensor(1.0), {}, {.title = "t", .unit = "u"})), ShapeError);
  EXPECT_THROW(bar_plot_svg(grid_of(at::ones({2, 2, 2}, at::kDouble))), ShapeError);
  EXPECT_EQ(bars_of(bar_plot_svg(row_grid({}))).size(), 0U);
}

}  // namespace
}  // namespace hooked::bar_plot_test
