#include "analysis/figures/heat_map_layout.h"

#include <fmt/format.h>

#include "analysis/figures/svg.h"
#include "tests/analysis/picture.h"
#include "tests/support/test.h"

namespace hooked::heat_map_layout_test {
namespace {

using testing::Contains;
using testing::Not;

TEST(SvgReader, FindsWhatIsNotWellFormed) {
  EXPECT_EQ(SvgReader::read("<a b=\"&lt;\"><c/>x &amp; y</a>\n").text, "x & y");
  for (const char* broken :
       {"<a>", "<a></b>", "<a b=\"1\" b=\"2\"/>", "<a b=1/>", "<a>&</a>", "<a>&nbsp;</a>", "<a>\x01</a>",
        "<a>\xFF</a>", "<a/><a/>", "<a b=\"<\"/>", "<a>\xEF\xBF\xBF</a>"})
    EXPECT_THROW(SvgReader::read(broken), std::runtime_error) << broken;
}

TEST(HeatMap, NumbersStandInCellsWhereAllFit) {
  EXPECT_THAT(Picture(row_grid({0, 0.5, -1.25})).numbers(), ElementsAre("0", "0.50", "-1.25"));
  EXPECT_THAT(Picture(row_grid({3, 140, -2})).numbers(), ElementsAre("3", "140", "-2"));
  EXPECT_THAT(Picture(row_grid({0.001, 1})).numbers(), ElementsAre("0.00", "1.00"));
  EXPECT_THAT(Picture(row_grid({-0.001, 1.5})).numbers(), ElementsAre("0.00", "1.50")) << "no -0.00";
  for (const std::int64_t cell : {12, 16, 20})
    EXPECT_THAT(Picture(row_grid({0.25, 0.5}), {.cell = cell}).numbers(), ElementsAre("", "")) << cell;

  for (const auto scale : {1e-9, 1e-3, 0.5, 12.0, 321.0, 1e4, 1e12}) {
    const Picture picture(grid_of(at::randn({12, 12}, at::kDouble) * scale));
    const auto shown = picture.root.all([](const auto& e) { return e.has_class("number"); });
    EXPECT_EQ(shown.size(), 144u) << scale;
    for (const auto* number : shown) {
      const auto size = std::stod(number->attribute("style").substr(10));
      EXPECT_LE(text_width(number->text, size), 34 - 4) << number->text;
      EXPECT_THAT(number->text, Not(HasSubstr("e"))) << scale;
    }
  }
  // An outlier's number is left out if its cell cannot hold it; the others keep their numbers.
  const Picture outlier(row_grid({0.25, 123456789}), {.high = 1.0});
  EXPECT_THAT(outlier.numbers(), ElementsAre("0.25", ""));
}

TEST(HeatMap, SmallAndLargeNumbersAreWrittenInPowersOfTen) {
  const Picture small(row_grid({-1.5e-3, 2.25e-3}));
  EXPECT_THAT(small.numbers(), ElementsAre("-1.50", "2.25"));
  EXPECT_THAT(small.words("unit"), ElementsAre("a unit · numbers in cells × 10⁻³"));
  EXPECT_THAT(small.words("tick"), ElementsAre("0.00225", "0", "-0.0015"));
  EXPECT_THAT(Picture(row_grid({-1.5, 2.25})).words("unit"), ElementsAre("a unit"));
  EXPECT_THAT(Picture(row_grid({25000, 50000})).numbers(), ElementsAre("2.50", "5.00"));
}

TEST(HeatMap, LargeGridsHaveNoNumbers) {
  const auto numbers_of = [](std::int64_t rows) {
    const Picture picture(grid_of(at::rand({rows, 20}, at::kDouble)), {.cell = 34});
    return picture.root.all([](const auto& e) { return e.has_class("number"); }).size();
  };
  EXPECT_EQ(numbers_of(20), 400u);
  EXPECT_EQ(numbers_of(21), 0u);
}

TEST(HeatMap, PointingAtACellShowsItsPlaceAndMarksItsRowAndColumn) {
  const Picture picture(grid_of(at::full({2, 3, 4}, 1.0 / 3, at::kDouble)));
  const auto cells = picture.cells();
  ASSERT_EQ(cells.size(), 24u);
  EXPECT_EQ(cells[23].title, "layer 1, row 2, column 3: 0.3333");
  EXPECT_THAT(picture.style(false), AllOf(HasSubstr(".heat-map:has(.r2:hover) .in-r2"),
                                          HasSubstr(".heat-map:has(.c3:hover) .in-c3")));
  EXPECT_THAT(picture.style(false), AllOf(Not(HasSubstr(".r3:hover")), Not(HasSubstr(".c4:hover"))));
  const auto has = [&](const std::string& name) {
    return picture.root.all([&](const auto& e) { return e.has_class(name); }).size();
  };
  EXPECT_EQ(has("r2"), 2u) << "a row of each panel";
  EXPECT_EQ(has("c3"), 6u) << "a cell of each row of each panel";
  EXPECT_EQ(has("in-r2"), 3u) << "a frame in each panel, and the label of the one row of panels";
  EXPECT_EQ(has("in-c3"), 4u) << "a frame and a label for each panel";
}

TEST(HeatMap, NeedsNothingFromOutside) {
  const auto text = Picture(grid_of(at::rand({70, 70}, at::kDouble))).text;
  for (const char* outside : {"<script", "@import", "@font-face", "url(", "xlink", "<a "})
    EXPECT_THAT(text, Not(HasSubstr(outside)));
  const std::string name_space = "http://www.w3.org/2000/svg";
  EXPECT_EQ(text.find("http"), text.find(name_space));
  EXPECT_EQ(text.find("http", text.find(name_space) + 4), std::string::npos);
}

TEST(HeatMap, AThirdAxisGivesPanelsInRows) {
  const auto values = at::rand({12, 15, 15}, at::kDouble);
  const auto at_places = [&](const Picture& picture) {
    std::set<double> across, down;
    for (const auto* e : picture.root.all([](const auto& e) { return e.has_class("panel-title"); })) {
      across.insert(e->number("x"));
      down.insert(e->number("y"));
    }
    return std::pair(across.size(), down.size());
  };
  const Picture picture(grid_of(values));
  EXPECT_THAT(picture.words("panel-title"),
              AllOf(testing::SizeIs(12), Contains("layer 0"), Contains("layer 11")));
  EXPECT_EQ(at_places(picture), std::pair(std::size_t{4}, std::size_t{3}));
  EXPECT_LT(picture.root.number("width"), 1400);
  EXPECT_LT(picture.root.number("height"), 1000);
  EXPECT_EQ(picture.cells().size(), 12u * 15 * 15);
  EXPECT_LT(picture.text.size(), 400000u);
  EXPECT_EQ(picture.words("in-r0").size(), 3u) << "the rows have labels at the left only";
  EXPECT_EQ(picture.words("in-c0").size(), 4u) << "and the columns below";

  EXPECT_EQ(at_places(Picture(grid_of(values), {.panels_per_row = 1})),
            std::pair(std::size_t{1}, std::size_t{12}));
  const Picture uneven(grid_of(at::rand({5, 2, 2}, at::kDouble)), {.panels_per_row = 3});
  EXPECT_EQ(at_places(uneven), std::pair(std::size_t{3}, std::size_t{2}));
  EXPECT_EQ(uneven.words("in-c0").size(), 3u) << "where no panel lies below";
}

TEST(HeatMap, LabelsShowBlanksAndAreEscaped) {
  const Grid grid(at::rand({6}, at::kDouble), {{"pos", {" a", "a", "<b>&", "\n", "日本語", "x\xFF\x01"}}},
                  {.title = "A \"title\" <i>", .unit = "<u>"});
  const Picture picture(grid);
  EXPECT_THAT(picture.text, AllOf(HasSubstr("A &quot;title&quot; &lt;i&gt;"), HasSubstr("&lt;u&gt;")));
  std::vector<std::string> shown;
  for (int i = 0; i < 6; ++i) shown.push_back(picture.words(fmt::format("in-c{}", i)).at(0));
  EXPECT_THAT(shown, ElementsAre("·a", "a", "<b>&", "↵", "日本語", "x\xEF\xBF\xBD\xE2\x90\x81"));
  EXPECT_EQ(picture.cells()[2].title.substr(0, 9), "pos <b>&:");
}

TEST(HeatMap, LabelsAreThinnedWhenTheyWouldOverlap) {
  for (const auto& word : {"", " a token"}) {
    const Grid grid(at::rand({1, 200}, at::kDouble), {{"layer", {"0"}}, {"pos", numbered(200, word)}},
                    {.title = "t", .unit = "u"});
    const Picture picture(grid);
    std::vector<double> places;
    double widest = 0;
    bool tilted = false;
    for (int i = 0; i < 200; ++i) {
      for (const auto* e : picture.root.all(
               [&](const auto& e) { return e.name == "text" && e.has_class(fmt::format("in-c{}", i)); })) {
        places.push_back(std::stod(e->attribute("transform").substr(10)));
        tilted = e->attribute("transform").find("rotate") != std::string::npos;
        widest = std::max(widest, text_width(e->text, 9));
      }
    }
    ASSERT_GT(places.size(), 5u);
    ASSERT_LT(places.size(), 100u);
    for (std::size_t i = 1; i < places.size(); ++i)
      EXPECT_GT(places[i] - places[i - 1], tilted ? 9 * 1.414 : widest) << word;
  }
  const Picture short_row(grid_of(at::rand({15}, at::kDouble)));
  for (int i = 0; i < 15; ++i) EXPECT_EQ(short_row.words(fmt::format("in-c{}", i)).size(), 1u);
}

TEST(HeatMap, NothingLiesOutsideThePicture) {
  const Grid grid(at::rand({3}, at::kDouble),
                  {{"pos", {"the first label is very long indeed", "b", "the last label"}}},
                  {.title = std::string(100, 'W'), .unit = "u"});
  const Picture picture(grid);
  EXPECT_GE(picture.root.number("width"), text_width(std::string(100, 'W'), 15));
  const auto* first =
      picture.root.all([](const auto& e) { return e.name == "text" && e.has_class("in-c0"); })[0];
  const auto middle = std::stod(first->attribute("transform").substr(10));
  EXPECT_GE(middle - 0.7 * text_width(first->text, 12), 0);
  EXPECT_THAT(first->text, testing::EndsWith("…"));
  EXPECT_THAT(picture.cells()[0].title, HasSubstr("very long indeed"));
}

TEST(HeatMap, LabelsBesideAShortLastRowOfPanelsKeepOffIt) {
  const Grid grid(at::rand({3, 2, 4}, at::kDouble),
                  {{"layer", numbered(3)}, {"row", numbered(2)}, {"pos", numbered(4, " quite a long label")}},
                  {.title = "t", .unit = "u"});
  const Picture picture(grid, {.panels_per_row = 2});
  const auto first = picture.root.all([](const auto& e) { return e.name == "text" && e.has_class("in-c0"); });
  ASSERT_EQ(first.size(), 2u);
  const auto end = std::stod(first[0]->attribute("transform").substr(10));
  const auto last = picture.cells().back();  // of the panel below, at the left
  EXPECT_GT(end - 0.7072 * text_width(first[0]->text, 12), last.x + last.side);
}

TEST(HeatMap, ManyCellsAreASmallImage) {
  auto values = at::randn({512, 512}, at::kDouble);
  values[3][4] = kNaN;
  const Picture picture(grid_of(values), {.high = 3.0});
  EXPECT_LT(picture.text.size(), 1'000'000u);
  const auto images = picture.root.all([](const auto& e) { return e.name == "image"; });
  ASSERT_EQ(images.size(), 2u);
  EXPECT_TRUE(images[0]->has_class("light"));
  EXPECT_TRUE(images[1]->has_class("dark"));
  EXPECT_NE(images[0]->attribute("href"), images[1]->attribute("href"));
  EXPECT_EQ(images[0]->number("width"), 1024);
  EXPECT_THAT(picture.words("tick"),
              AllOf(Contains("above 3"), Contains("NaN"), Not(Contains(HasSubstr("below")))));

  const auto squares = picture.cells();
  EXPECT_EQ(squares.size(), 32u * 32);
  const auto corner = values.narrow(0, 496, 16).narrow(1, 496, 16);
  EXPECT_EQ(squares.back().title, fmt::format("row 496 – 511, column 496 – 511: {} to {}",
                                              readable_number(corner.min().item<double>()),
                                              readable_number(corner.max().item<double>())));
  EXPECT_THAT(squares.front().title, testing::EndsWith(", NaN"));
  EXPECT_TRUE(Picture(grid_of(at::rand({64, 64}, at::kDouble)))
                  .root.all([](const auto& e) { return e.name == "image"; })
                  .empty());
  EXPECT_LT(Picture(causal_pattern(48)).text.size(), 250000u);
}

TEST(HeatMap, EveryShapeIsWellFormed) {
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{1},
                                                                  {0},
                                                                  {3, 0},
                                                                  {0, 3},
                                                                  {0, 2, 2},
                                                                  {1, 1, 1},
                                                                  {300},
                                                                  {2, 500},
                                                                  {500, 2},
                                                                  {30, 4, 9},
                                                                  {3, 40, 40},
                                                                  {5000}}) {
    const Picture picture(grid_of(at::randn(shape, at::kDouble)));
    EXPECT_GT(picture.root.number("width"), 50) << shape.size();
    EXPECT_LT(picture.root.number("width"), 12000) << shape.size();
  }
  for (const double extreme : {1e308, 1e-308, 1e-320}) {
    const Picture picture(row_grid({-extreme, extreme, 0}));
    EXPECT_THAT(picture.paints(), ElementsAre("RdBu-0", "RdBu-100", "RdBu-50")) << extreme;
  }
}

}  // namespace
}  // namespace hooked::heat_map_layout_test
