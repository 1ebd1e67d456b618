#include "hooked/analysis/heat_map.h"

#include <ATen/ops/linspace.h>

#include "tests/analysis/picture.h"
#include "tests/support/test.h"

namespace hooked::heat_map_test {
namespace {

using testing::Contains;
using testing::Not;

double luminance(const std::string& hex) {
  const auto part = [&](std::size_t i) {
    const auto digits = hex.size() == 4 ? std::string(2, hex[1 + i]) : hex.substr(1 + 2 * i, 2);
    const double share = std::stoi(digits, nullptr, 16) / 255.0;
    return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2);
}

double contrast(const std::string& a, const std::string& b) {
  const auto [low, high] = std::minmax({luminance(a), luminance(b)});
  return (high + 0.05) / (low + 0.05);
}

TEST(HeatMap, ZeroIsWhiteAndTheExtremesAreDark) {
  const Picture picture(row_grid({-4, 0, 4}));
  EXPECT_THAT(picture.paints(), ElementsAre("RdBu-0", "RdBu-50", "RdBu-100"));
  EXPECT_EQ(picture.fill(0), "#67001f");
  EXPECT_EQ(picture.fill(1), "#ffffff");
  EXPECT_EQ(picture.fill(2), "#053061");
}

TEST(HeatMap, WhatIsNeverNegativeHasASequentialScaleFromZero) {
  EXPECT_THAT(Picture(row_grid({0.25, 0.5, 1})).paints(), ElementsAre("Blues-25", "Blues-50", "Blues-100"));
  EXPECT_THAT(Picture(row_grid({0, 0})).paints(), ElementsAre("Blues-0", "Blues-0"));
  EXPECT_THAT(Picture(row_grid({7, 7})).paints(), ElementsAre("Blues-100", "Blues-100"));
  const Picture picture(row_grid({0.25, 1}));
  EXPECT_THAT(picture.words("tick"), ElementsAre("1", "0.5", "0"));
  EXPECT_NE(picture.colour("Blues-0"), "#ffffff") << "differs from a blank cell";
}

TEST(HeatMap, ColoursAreCentredWhateverTheNumbersAre) {
  const Picture around_zero(row_grid({0, 1, 8}), {.centre = 0.0});
  EXPECT_EQ(around_zero.fill(2), "#053061");
  EXPECT_EQ(around_zero.fill(0), "#ffffff");
  EXPECT_THAT(around_zero.words("tick"), ElementsAre("8", "0")) << "no side without numbers";

  const Picture around_five(row_grid({4, 5, 9}), {.centre = 5.0});
  EXPECT_EQ(around_five.fill(1), "#ffffff");
  EXPECT_EQ(around_five.fill(2), "#053061");
  EXPECT_EQ(around_five.cells()[0].paint, "RdBu-38") << "a quarter of the way to red: 50 * (1 - 1 / 4)";
  EXPECT_THAT(Picture(row_grid({1, 6}), {.centre = 5.0}).paints(), ElementsAre("RdBu-0", "RdBu-63"));
  EXPECT_EQ(Picture(row_grid({5, 5}), {.centre = 5.0}).fill(0), "#ffffff");
}

TEST(HeatMap, NumbersBeyondTheLimitsHaveColoursThatTheLegendNames) {
  const Picture picture(row_grid({-3, -2, 0, 2, 1e6}), {.low = -2.0, .high = 2.0});
  EXPECT_THAT(picture.paints(), ElementsAre("below", "RdBu-0", "RdBu-50", "RdBu-100", "above"));
  EXPECT_THAT(picture.words("tick"), ElementsAre("2", "0", "-2", "above 2", "below -2"));
  EXPECT_TRUE(picture.cells()[0].has_mark);
  EXPECT_FALSE(picture.cells()[1].has_mark);
  EXPECT_TRUE(picture.cells()[4].has_mark);
  std::set<std::string> fills;
  for (std::size_t i = 0; i < 5; ++i) fills.insert(picture.fill(i));
  EXPECT_EQ(fills.size(), 5u);
  EXPECT_THAT(Picture(row_grid({-3, 1e6})).words("tick"), Not(Contains(HasSubstr("above"))));
}

TEST(HeatMap, WhatPassesALimitByRoundingIsNotBeyondIt) {
  EXPECT_THAT(Picture(row_grid({1 + 1e-7, 1 + 1e-5, -1e-7}), {.low = 0.0, .high = 1.0}).paints(),
              ElementsAre("Blues-100", "above", "Blues-0"));
}

TEST(HeatMap, NaNAndInfinitiesAreShownAsWhatTheyAre) {
  const Picture picture(row_grid({kInfinity, 1, kNaN, -kInfinity}));
  EXPECT_THAT(picture.paints(), ElementsAre("infinity", "Blues-100", "NaN", "minus-infinity"));
  EXPECT_THAT(picture.words("tick"), ElementsAre("1", "0.5", "0", "∞", "-∞", "NaN"));
  EXPECT_THAT(picture.numbers(), ElementsAre("∞", "1", "NaN", "-∞"));
  EXPECT_THAT(picture.cells()[2].title, HasSubstr(": NaN"));
  EXPECT_EQ(Picture(row_grid({kNaN, kNaN})).paints().size(), 2u);
}

TEST(HeatMap, BlankCellsAreEmptyAndDoNotStretchTheScale) {
  const auto values = at::tensor({1.0, 1e6, kNaN, 2.0}, at::kDouble).view({2, 2});
  const Picture picture(grid_of(values),
                        {.blank = at::tensor({0, 1, 1, 0}, at::kLong).view({2, 2}).to(at::kBool)});
  EXPECT_THAT(picture.paints(), ElementsAre("Blues-50", "Blues-100"));
  EXPECT_THAT(picture.words("tick"), Not(Contains("NaN")));
  const auto& lines = picture.root.all([](const auto& e) { return e.has_class("lines"); });
  ASSERT_EQ(lines.size(), 1u);
  const auto path = lines[0]->attribute("d");
  EXPECT_EQ(std::count(path.begin(), path.end(), 'M'), 2) << "two stretches of cells: " << path;

  // One mask serves all panels.
  const auto of_panels =
      Picture(grid_of(at::rand({3, 2, 2}, at::kDouble)), {.blank = at::ones({2, 2}, at::kBool).triu(1)});
  EXPECT_EQ(of_panels.cells().size(), 9u);
  EXPECT_TRUE(Picture(row_grid({1, 2}), {.blank = at::ones({1}, at::kBool)}).cells().empty());
}

TEST(HeatMap, KeysAfterTheQueryOfACausalPatternAreBlank) {
  EXPECT_EQ(Picture(causal_pattern(5)).cells().size(), 15u);
  // Asked for, all cells are shown; a pattern of both directions and other axes are shown whole, too.
  EXPECT_EQ(Picture(causal_pattern(5), {.blank = at::zeros({5, 5}, at::kBool)}).cells().size(), 25u);
  EXPECT_EQ(Picture(grid_of(at::rand({5, 5}, at::kDouble), {"query", "key"})).cells().size(), 25u);
  EXPECT_EQ(Picture(grid_of(causal_pattern(5).values(), {"from", "to"})).cells().size(), 25u);
  EXPECT_EQ(Picture(grid_of(at::zeros({3, 3}, at::kDouble), {"query", "key"})).cells().size(), 9u);
  // Scores are -inf there; with a prefix the first query sees several keys.
  const auto scores =
      at::rand({2, 4}, at::kDouble).masked_fill(at::ones({2, 4}, at::kBool).triu(3), -kInfinity);
  const Picture with_prefix(grid_of(scores, {"query", "key"}));
  EXPECT_EQ(with_prefix.cells().size(), 7u);
  EXPECT_THAT(with_prefix.words("tick"), Not(Contains("-∞")));
}

TEST(HeatMap, InkIsReadableOnEveryColour) {
  for (const char* palette : {"Blues", "Greys", "viridis", "RdBu", "PRGn"}) {
    auto values = at::linspace(-1, 1, 101, at::kDouble);
    const Picture picture(grid_of(values), {.palette = palette, .low = -1.0, .high = 1.0});
    const auto paints = picture.paints();
    for (const auto& paint : paints) {
      for (const bool dark : {false, true}) {
        EXPECT_GE(contrast(picture.colour(paint, dark), picture.colour(paint, dark, "color")), 3.8)
            << paint << dark;
      }
    }
    EXPECT_EQ(std::set<std::string>(paints.begin(), paints.end()).size(), 101u);
  }
}

TEST(HeatMap, ADarkPageHasDarkColoursForWhatIsWeak) {
  const Picture picture(row_grid({-1, 0, 1, kNaN}));
  EXPECT_THAT(picture.style(true), HasSubstr("@media screen and (prefers-color-scheme:dark)"));
  const auto page = picture.colour("page", true);
  EXPECT_LT(luminance(page), 0.02);
  EXPECT_EQ(picture.colour("page"), "#fff");
  for (const auto& paint : picture.paints()) {
    EXPECT_FALSE(picture.colour(paint, false).empty()) << paint;
    EXPECT_FALSE(picture.colour(paint, true).empty()) << paint;
  }
  EXPECT_LT(contrast(picture.colour("RdBu-50", true), page), 1.3);
  EXPECT_GT(contrast(picture.colour("RdBu-0", true), page), 8);
  EXPECT_GT(contrast(picture.colour("RdBu-100", true), page), 8);
}

/// As in a table of them; other numbers are rounded on their common scale.
TEST(HeatMap, SmallProbabilitiesKeepADigit) {
  const at::Tensor values = at::tensor({0.75, 3e-7, 0.004, 0.0}, at::kDouble);
  const auto cells = [&](const std::string& unit) {
    const auto svg = heat_map_svg(Grid(values, {{"point", numbered(4)}}, {.title = "A", .unit = unit}));
    std::vector<std::string> found;
    for (const char* words : {">0.75<", ">3e-7<", ">4e-3<", ">0.00<"}) {
      if (svg.find(words) != std::string::npos) found.emplace_back(words);
    }
    return found;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(cells("probability"), (Words{">0.75<", ">3e-7<", ">4e-3<"}));
  EXPECT_EQ(cells("probability · “When”, “ Mary”"), (Words{">0.75<", ">3e-7<", ">4e-3<"}));
  EXPECT_EQ(cells("logits"), (Words{">0.75<", ">0.00<"}));
}

TEST(HeatMap, AllPanelsHaveOneScale) {
  const Picture picture(grid_of(at::tensor({1.0, 4.0}, at::kDouble).view({2, 1, 1})));
  EXPECT_THAT(picture.paints(), ElementsAre("Blues-25", "Blues-100"));
}

TEST(HeatMap, RefusesWhatContradictsItself) {
  const auto refused = [](const HeatMapOptions& options) {
    return text_thrown_by<ConfigError>([&] { heat_map_svg(row_grid({-1, 0, 1}), options); });
  };
  EXPECT_THAT(refused({.palette = "blues"}),
              AllOf(HasSubstr("[heat map] unknown palette"), HasSubstr("Blues, Greys, viridis, RdBu, PRGn"),
                    HasSubstr("got 'blues'"), HasSubstr("did you mean Blues?")));
  EXPECT_THAT(refused({.low = 2.0, .high = 1.0}), HasSubstr("expected low below high, got low 2 and high 1"));
  EXPECT_THAT(refused({.low = 1.0, .high = 1.0}), HasSubstr("expected low below high"));
  EXPECT_THAT(refused({.centre = 3.0, .low = 0.0, .high = 1.0}),
              HasSubstr("expected a centre from 0 to 1, got 3"));
  EXPECT_THAT(refused({.palette = "RdBu", .low = 2.0, .high = 3.0}),
              HasSubstr("got 0, which is the default"));
  EXPECT_THAT(refused({.palette = "viridis", .centre = 0.5}),
              AllOf(HasSubstr("viridis has no colour for a centre"), HasSubstr("expected RdBu or PRGn")));
  EXPECT_THAT(refused({.centre = kNaN}), HasSubstr("centre is not finite"));
  EXPECT_THAT(refused({.low = -kInfinity}), HasSubstr("low is not finite; expected a number, got -inf"));
  EXPECT_THAT(refused({.high = kInfinity}), HasSubstr("high is not finite"));
  EXPECT_THAT(refused({.panels_per_row = -1}), HasSubstr("panels_per_row is negative"));
  EXPECT_THAT(refused({.cell = -1}), HasSubstr("expected 1 to 400 pixels, got -1"));
  EXPECT_THAT(refused({.cell = 401}), HasSubstr("expected 1 to 400 pixels, got 401"));

  const auto blank = [](const at::Tensor& mask) {
    return text_thrown_by<ShapeError>([&] { heat_map_svg(row_grid({-1, 0, 1}), {.blank = mask}); });
  };
  EXPECT_THAT(blank(at::ones({2}, at::kBool)),
              HasSubstr("expected bool [3], or what broadcasts to it, got bool [2]"));
  EXPECT_THAT(blank(at::ones({3}, at::kFloat)), HasSubstr("got float32 [3]"));
  EXPECT_THAT(blank(at::ones({1, 3}, at::kBool)), HasSubstr("got bool [1, 3]"));
}

}  // namespace
}  // namespace hooked::heat_map_test
