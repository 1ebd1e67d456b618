#include "hooked/analysis/line_plot.h"

#include <sstream>

#include "analysis/figures/svg.h"
#include "tests/analysis/picture.h"
#include "tests/support/test.h"

namespace hooked::line_plot_test {
namespace {

using testing::Contains;
using testing::Not;
using testing::SizeIs;

Grid curve(const std::vector<double>& values, const std::vector<std::string>& labels,
           const std::string& axis = "tokens") {
  return Grid(at::tensor(values, at::kDouble), {{axis, labels}}, {.title = "A title", .unit = "ms"});
}

/// A line plot as its reader sees it.
struct Plot {
  explicit Plot(const Grid& grid, const LinePlotOptions& options = {})
      : text(line_plot_svg(grid, options)), root(SvgReader::read(text)) {}

  std::vector<const SvgElement*> of_class(const std::string& name) const {
    return root.all([&](const auto& e) { return e.has_class(name); });
  }
  std::vector<std::string> words(const std::string& of) const {
    std::vector<std::string> all;
    for (const auto* e : of_class(of)) all.push_back(e->text);
    return all;
  }
  /// What pointing shows, in the order of the grid.
  std::vector<std::string> titles() const {
    std::vector<std::string> all;
    for (const auto* g : root.all([](const auto& e) { return e.name == "g" && e.child("title"); }))
      all.push_back(g->child("title")->text);
    return all;
  }
  /// The paths of the lines themselves, without those of the legend.
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    for (const auto* g : of_class("series")) {
      if (g->child("text")) continue;
      const auto* path = g->child("path");
      all.push_back(path ? path->attribute("d") : "");
    }
    return all;
  }
  /// Centres of the dots of the lines.
  std::vector<std::pair<double, double>> dots() const {
    std::vector<std::pair<double, double>> all;
    for (const auto* g : root.all([](const auto& e) { return e.name == "g" && e.child("title"); })) {
      if (const auto* dot = g->child("circle")) all.emplace_back(dot->number("cx"), dot->number("cy"));
    }
    return all;
  }

  std::string text;
  SvgElement root;
};

std::size_t strokes(const std::string& path) {
  return static_cast<std::size_t>(std::count(path.begin(), path.end(), 'M'));
}

TEST(LinePlot, PlacesLieWhereTheirNumbersSay) {
  const auto dots = Plot(curve({1, 2, 4}, {"0", "10", "40"})).dots();
  ASSERT_THAT(dots, SizeIs(3));
  EXPECT_NEAR((dots[1].first - dots[0].first) * 3, dots[2].first - dots[1].first, 0.5);
  EXPECT_NEAR((dots[0].second - dots[1].second) * 2, dots[1].second - dots[2].second, 0.3);

  const auto ratios = Plot(curve({1, 10, 100}, {"16", "64", "256"}),
                           {.x = PlotScale::logarithmic, .y = PlotScale::logarithmic})
                          .dots();
  EXPECT_NEAR(ratios[1].first - ratios[0].first, ratios[2].first - ratios[1].first, 0.2);
  EXPECT_NEAR(ratios[0].second - ratios[1].second, ratios[1].second - ratios[2].second, 0.2);
}

TEST(LinePlot, TextsStandAtEqualDistances) {
  // Also if some are numbers, or all are but without order, as tokens may be.
  for (const auto& labels :
       std::vector<std::vector<std::string>>{{" a", "b", " c"}, {"7", "3", "70"}, {"1", "2", "x"}}) {
    const Plot plot(curve({1, 2, 4}, labels));
    const auto dots = plot.dots();
    EXPECT_NEAR(dots[1].first - dots[0].first, dots[2].first - dots[1].first, 0.2) << labels[0];
    EXPECT_EQ(plot.words("x-tick").size(), 3u);
  }
  EXPECT_THAT(Plot(curve({1, 2}, {" a", "b "})).words("x-tick"), ElementsAre("·a", "b·"));
}

TEST(LinePlot, ALineForEachPlaceOfTheFirstAxis) {
  const Plot plot(Grid(at::rand({3, 5}, at::kDouble), {{"layer", {"0", "<1>", "2"}}, {"pos", numbered(5)}},
                       {.title = "A & B", .unit = "probability"}));
  EXPECT_THAT(plot.lines(), SizeIs(3));
  EXPECT_THAT(plot.words("key"), ElementsAre("0", "<1>", "2"));
  EXPECT_THAT(plot.words("panel-title"), ElementsAre("layer"));
  EXPECT_THAT(plot.words("title"), ElementsAre("A & B"));
  EXPECT_THAT(plot.words("unit"), ElementsAre("probability"));
  EXPECT_THAT(plot.titles(), SizeIs(15));
  EXPECT_THAT(plot.titles(), Contains(HasSubstr("layer <1>, pos 3: 0.")));
  EXPECT_THAT(plot.root.child("style")->text, HasSubstr(".line-plot:has(.l2:hover) .series:not(.l2)"));
  // One line has no legend, as there is nothing to distinguish.
  const Plot one(curve({1, 2}, {"0", "1"}));
  EXPECT_THAT(one.words("key"), SizeIs(0));
  EXPECT_THAT(one.titles(), ElementsAre("tokens 0: 1", "tokens 1: 2"));
  EXPECT_THAT(one.text, Not(HasSubstr(":has(")));
}

TEST(LinePlot, LinesHaveColoursOfTheirOwnOnBothPages) {
  for (const std::int64_t count : {1, 6, 7, 40}) {
    const Plot plot(grid_of(at::rand({count, 2}, at::kDouble)));
    const auto& style = plot.root.child("style")->text;
    const auto dark_from = style.find("@media");
    std::set<std::string> light, dark;
    for (std::int64_t line = 0; line < count; ++line) {
      const auto rule = ".line-plot .l" + std::to_string(line) + "{color:";
      light.insert(style.substr(style.find(rule) + rule.size(), 7));
      dark.insert(style.substr(style.find(rule, dark_from) + rule.size(), 7));
    }
    EXPECT_THAT(light, SizeIs(count));
    EXPECT_THAT(dark, SizeIs(count));
  }
}

TEST(LinePlot, NaNLeavesAGap) {
  const Plot plot(curve({1, 2, kNaN, 3, kNaN, 1, 2}, numbered(7)));
  EXPECT_EQ(strokes(plot.lines()[0]), 2u) << plot.lines()[0];
  EXPECT_THAT(plot.dots(), SizeIs(5)) << "a number between two gaps is a dot";
  EXPECT_THAT(plot.words("note"), ElementsAre("gap: NaN"));
  EXPECT_THAT(plot.titles(), Not(Contains(HasSubstr("NaN"))));
  EXPECT_THAT(Plot(curve({1, 2}, numbered(2))).words("note"), SizeIs(0));

  // If points are too near for dots, only an isolated one has a dot.
  std::vector<double> many(200, 1.0);
  many[99] = many[101] = kNaN;
  EXPECT_THAT(Plot(curve(many, numbered(200))).dots(), SizeIs(1));
  EXPECT_THAT(Plot(curve({kNaN, kNaN}, numbered(2))).titles(), SizeIs(0));
}

TEST(LinePlot, WhatIsBeyondTheLimitsIsMarkedAtTheEdge) {
  const Plot plot(curve({-5, 1, 9, kInfinity, 0, -kInfinity}, numbered(6)), {.low = -1.0, .high = 3.0});
  EXPECT_THAT(plot.of_class("beyond"), SizeIs(4));
  EXPECT_THAT(plot.dots(), SizeIs(2));
  EXPECT_THAT(plot.words("note"), ElementsAre("▲ above 3", "▲ ∞", "▼ -∞", "▼ below -1"));
  EXPECT_THAT(plot.titles(), AllOf(Contains("tokens 2: 9"), Contains("tokens 3: ∞")));
  // The line goes to the edge and no further.
  const auto frame = plot.of_class("frame").front()->attribute("d");
  double left = 0, top = 0, height = 0;
  ASSERT_EQ(std::sscanf(frame.c_str(), "M%lf %lfv%lf", &left, &top, &height), 3) << frame;
  const auto line = plot.lines()[0];
  EXPECT_EQ(strokes(line), 1u) << "from -5 over 1 to 9: " << line;
  for (std::size_t at = 0; at < line.size(); at = line.find_first_of("ML", at + 1)) {
    double x = 0, y = 0;
    ASSERT_EQ(std::sscanf(line.c_str() + at + 1, "%lf %lf", &x, &y), 2);
    EXPECT_GE(y, top);
    EXPECT_LE(y, top + height);
  }
  EXPECT_THAT(Plot(curve({1 + 1e-7, -1e-7}, numbered(2)), {.low = 0.0, .high = 1.0}).words("note"),
              SizeIs(0));
}

TEST(LinePlot, ALogarithmicAxisShowsWhatIsAboveZero) {
  const Plot plot(curve({0.001, 0, 10, -3, 1000}, numbered(5)), {.y = PlotScale::logarithmic});
  EXPECT_THAT(plot.dots(), SizeIs(3));
  EXPECT_THAT(plot.of_class("beyond"), SizeIs(2));
  EXPECT_THAT(plot.words("note"), ElementsAre("▼ below 0.001"));
  EXPECT_THAT(plot.words("tick"), ElementsAre("0.001", "0.01", "0.1", "1", "10", "100", "1000"));
}

TEST(LinePlot, TicksAreRoundNumbers) {
  const auto ticks = [](const std::vector<double>& values, const LinePlotOptions& options = {}) {
    return Plot(curve(values, numbered(static_cast<std::int64_t>(values.size()))), options).words("tick");
  };
  EXPECT_THAT(ticks({0.1, 0.93}), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1"));
  EXPECT_THAT(ticks({-3, 4}), ElementsAre("-4", "-2", "0", "2", "4"));
  EXPECT_THAT(ticks({3, 7}, {.y = PlotScale::logarithmic}), ElementsAre("2", "5", "10"));
  EXPECT_THAT(ticks({5, 5}), Contains("0"));
  EXPECT_THAT(ticks({0, 0}), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1"));
  EXPECT_THAT(ticks({1, 1.1}, {.low = 1.0}).front(), "1");
  EXPECT_THAT(ticks({5, 6}, {.high = -1.0}), Contains("-1"));
  for (const auto& extreme : std::vector<std::vector<double>>{
           {1e308, -1e308}, {5e-324, 1e-323, 1}, {-1.7e308, 1.7e308}, {1e16, 1e16 + 2}, {1e-300, 1e300}}) {
    for (const auto scale : {PlotScale::linear, PlotScale::logarithmic}) {
      const auto words = ticks(extreme, {.y = scale});
      EXPECT_GE(words.size(), 2u) << extreme[0];
      EXPECT_LE(words.size(), 12u) << extreme[0];
      EXPECT_EQ(std::set<std::string>(words.begin(), words.end()).size(), words.size()) << extreme[0];
    }
  }
}

TEST(LinePlot, LabelsBelowNeverOverlap) {
  const auto check = [](const Plot& plot) {
    double reach = -1e9;
    for (const auto* label : plot.of_class("x-tick")) {
      const auto transform = label->attribute("transform");
      if (transform.find("rotate") != std::string::npos) continue;
      const double x = transform.empty() ? label->number("x") : std::stod(transform.substr(10));
      const double half = text_width(label->text, 12) / 2;
      EXPECT_GT(x - half, reach) << label->text;
      reach = x + half;
    }
    EXPECT_GE(plot.of_class("x-tick").size(), 1u);
  };
  for (const auto scale : {PlotScale::linear, PlotScale::logarithmic}) {
    for (const std::int64_t width : {60, 200, 460, 1500}) {
      std::vector<std::string> doubled, counted;
      for (int i = 4; i <= 12; ++i) doubled.push_back(std::to_string(1 << i));
      for (int i = 1; i <= 1000; ++i) counted.push_back(std::to_string(i));
      check(Plot(curve(std::vector<double>(9, 1.0), doubled), {.x = scale, .width = width}));
      check(Plot(curve(std::vector<double>(1000, 1.0), counted), {.x = scale, .width = width}));
    }
  }
  check(Plot(curve({1, 2, 3}, {"John", "Mary", "and"})));
  // The places' own labels, where they fit.
  EXPECT_THAT(Plot(curve({1, 2, 3}, {"16", "64", "4096"}), {.x = PlotScale::logarithmic}).words("x-tick"),
              ElementsAre("16", "64", "4096"));
}

TEST(LinePlot, ManyPointsShareElementsThatShowTheirRange) {
  const Plot plot(grid_of(at::randn({3, 5000}, at::kDouble)));
  EXPECT_LE(plot.titles().size(), 4096u);
  EXPECT_THAT(plot.titles().front(), AllOf(HasSubstr("row 0, column 0 – 3: "), HasSubstr(" to ")));
  EXPECT_EQ(strokes(plot.lines()[0]), 1u);
  EXPECT_LT(plot.text.size(), 1'500'000u);
  // A legend of many lines names some of them.
  const Plot many(grid_of(at::randn({48, 4}, at::kDouble)));
  EXPECT_THAT(many.lines(), SizeIs(48));
  EXPECT_THAT(many.words("key"), ElementsAre("0", "5", "10", "15", "20", "25", "30", "35", "40", "45"));
}

TEST(LinePlot, SmallGridsAreDrawn) {
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{1}, {0}, {1, 1}, {2, 1}, {0, 3}, {3, 0}}) {
    for (const auto scale : {PlotScale::linear, PlotScale::logarithmic}) {
      if (scale == PlotScale::logarithmic && shape.back() == 3) continue;  // 0 is on no such axis
      const Plot plot(grid_of(at::full(shape, 2.0, at::kDouble)), {.x = scale, .y = scale});
      EXPECT_THAT(plot.words("title"), SizeIs(1));
      EXPECT_THAT(plot.text, Not(AnyOf(HasSubstr("nan"), HasSubstr("inf"))));
    }
  }
}

TEST(LinePlot, RefusesWhatContradictsItself) {
  const auto refused = [](const LinePlotOptions& options, const std::vector<double>& values = {-1, 0, 1}) {
    return text_thrown_by<ConfigError>([&] { line_plot_svg(curve(values, numbered(3)), options); });
  };
  EXPECT_THAT(
      refused({.low = 2.0, .high = 1.0}),
      HasSubstr(
          "[line plot] the limits are the wrong way round; expected low below high, got low 2 and high 1"));
  EXPECT_THAT(refused({.low = 1.0, .high = 1.0}), HasSubstr("expected low below high"));
  EXPECT_THAT(refused({.low = -kInfinity}), HasSubstr("low is not finite; expected a number, got -inf"));
  EXPECT_THAT(refused({.high = kNaN}), HasSubstr("high is not finite"));
  EXPECT_THAT(refused({.y = PlotScale::logarithmic, .low = 0.0}),
              HasSubstr("expected a number above zero, got 0"));
  EXPECT_THAT(refused({.y = PlotScale::logarithmic}, {-1, 0, kNaN}),
              HasSubstr("expected a finite number above zero, got none; take a linear axis"));
  EXPECT_THAT(refused({.x = PlotScale::logarithmic}),
              AllOf(HasSubstr("the labels of axis 'tokens'"), HasSubstr("got '0' to '2'")));
  EXPECT_THAT(refused({.width = -1}), HasSubstr("width is out of range; expected 1 to 4000 pixels, got -1"));
  EXPECT_THAT(refused({.height = 4001}), HasSubstr("height is out of range"));

  const auto shape = [](const Grid& grid) {
    return text_thrown_by<ShapeError>([&] { line_plot_svg(grid); });
  };
  EXPECT_THAT(shape(grid_of(at::zeros({2, 2, 2}, at::kDouble))),
              AllOf(HasSubstr("'A title' has 3 axes"), HasSubstr("take a slice or a mean of it")));
  EXPECT_THAT(shape(grid_of(at::zeros({}, at::kDouble))), HasSubstr("print it instead"));
}

}  // namespace
}  // namespace hooked::line_plot_test
