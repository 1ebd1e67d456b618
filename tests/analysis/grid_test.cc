#include "hooked/analysis/grid.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hooked/analysis/heat_map.h"
#include "hooked/core/error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"

namespace hooked::grid_test {
namespace {

using testing::HasSubstr;

Grid two_by_three() {
  return Grid(at::tensor({0.5, -1.25, 2.0, 3.0, 0.0, -10.0}, at::kDouble).view({2, 3}),
              {{"layer", {"0", "1"}}, {"pos", {"0 <bos>", "1 a,b", "2 \"c\""}}},
              {.title = "Patching resid_pre", .unit = "logit difference"});
}

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Grid, KeepsValuesAsFloat64) {
  const Grid grid(at::arange(2, at::kFloat), {{"head", {"0", "1"}}}, {.title = "t", .unit = "u"});
  EXPECT_EQ(grid.values().scalar_type(), at::kDouble);
  EXPECT_EQ(grid.at({1}), 1.0);
  EXPECT_EQ(two_by_three().at({1, -1}), -10.0);
}

TEST(Grid, RefusesLabelsThatDoNotFit) {
  const auto make = [] {
    Grid(at::arange(3, at::kDouble), {{"head", {"0", "1"}}}, {.title = "scores", .unit = ""});
  };
  EXPECT_THAT(
      text_thrown_by<ShapeError>(make),
      testing::AllOf(HasSubstr("[scores]"), HasSubstr("axis head has 2 labels"), HasSubstr("expected 3")));
  const auto flat = [] {
    Grid(at::arange(4, at::kDouble), {{"a", {"0"}}, {"b", {"0"}}}, {.title = "x", .unit = ""});
  };
  EXPECT_THAT(text_thrown_by<ShapeError>(flat), testing::AllOf(HasSubstr("2 axes"), HasSubstr("[4]")));
  EXPECT_THAT(text_thrown_by<ShapeError>([] {
                two_by_three().at({2, 0});
              }),
              testing::AllOf(HasSubstr("index 2"), HasSubstr("layer of size 2")));
}

TEST(Grid, LargestComesFirst) {
  const auto cells = two_by_three().largest(2);
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].index, std::vector<std::int64_t>({1, 0}));
  EXPECT_EQ(cells[0].value, 3.0);
  EXPECT_EQ(cells[1].index, std::vector<std::int64_t>({0, 2}));
  EXPECT_EQ(two_by_three().largest(100).size(), 6u);
}

TEST(Grid, RescaledPutsTwoNumbersAtZeroAndOne) {
  const auto grid = two_by_three().rescaled(-10, 3, "share");
  EXPECT_EQ(grid.at({1, 2}), 0.0);
  EXPECT_EQ(grid.at({1, 0}), 1.0);
  EXPECT_EQ(grid.unit(), "share");
  EXPECT_THAT(text_thrown_by<ShapeError>([] { two_by_three().rescaled(2, 2, ""); }),
              HasSubstr("got 2 twice"));
}

TEST(Grid, PrintsAnAlignedTable) {
  std::ostringstream out;
  out << two_by_three();
  EXPECT_EQ(out.str(),
            "Patching resid_pre (logit difference)\n"
            "layer \\ pos  0 <bos>   1 a,b    2 \"c\"\n"
            "          0    0.500  -1.250    2.000\n"
            "          1    3.000   0.000  -10.000\n");
}

TEST(Grid, PrintsOneAxisAndThree) {
  std::ostringstream out;
  out << Grid(at::tensor({1.0, 2.0}, at::kDouble), {{"head", {"0", "1"}}}, {.title = "one", .unit = "x"})
      << Grid(at::arange(4, at::kDouble).view({2, 1, 2}),
              {{"layer", {"0", "1"}}, {"pos", {"p"}}, {"head", {"0", "1"}}}, {.title = "three", .unit = "x"});
  EXPECT_EQ(out.str(),
            "one (x)\n"
            "head      0      1\n"
            "      1.000  2.000\n"
            "three (x)\n"
            "layer 0\n"
            "pos \\ head      0      1\n"
            "         p  0.000  1.000\n"
            "layer 1\n"
            "pos \\ head      0      1\n"
            "         p  2.000  3.000\n");
}

TEST(Grid, CsvQuotesWhatNeedsIt) {
  const auto csv = two_by_three().to_csv();
  EXPECT_THAT(csv, testing::StartsWith("layer,pos,logit difference\n0,0 <bos>,0.5\n0,\"1 a,b\",-1.25\n"));
  EXPECT_THAT(csv, HasSubstr("1,\"2 \"\"c\"\"\",-10\n"));
}

TEST(Grid, JsonHoldsEverythingAndNullForNaN) {
  const Grid grid(at::tensor({1.5, std::numeric_limits<double>::quiet_NaN()}, at::kDouble),
                  {{"head", {"0", "1"}}}, {.title = "t", .unit = "u"});
  const auto json = nlohmann::json::parse(grid.to_json());
  EXPECT_EQ(
      json,
      nlohmann::json::parse(
          R"({"title":"t","unit":"u","axes":[{"name":"head","labels":["0","1"]}],"values":[1.5,null]})"));
}

TEST(Grid, SavesByTheFilesEnding) {
  const TempFolder folder;
  const auto grid = two_by_three();
  for (const char* name : {"g.svg", "g.csv", "g.json"}) grid.save(folder / name);
  EXPECT_EQ(read(folder / "g.csv"), grid.to_csv());
  EXPECT_EQ(read(folder / "g.json"), grid.to_json());
  EXPECT_THAT(read(folder / "g.svg"), testing::StartsWith("<svg"));
  const auto error = thrown_by<IoError>([&] { grid.save(folder / "g.png"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::AllOf(HasSubstr(".png"), HasSubstr(".svg, .csv or .json")));
  EXPECT_THROW(grid.save(folder / "absent" / "g.csv"), IoError);
}

TEST(Grid, SavesPicturesWithOptions) {
  const TempFolder folder;
  const HeatMapOptions options{.palette = "PRGn", .centre = 1.0, .high = 2.0};
  two_by_three().save(folder / "g.svg", options);
  EXPECT_EQ(read(folder / "g.svg"), heat_map_svg(two_by_three(), options));
  EXPECT_NE(read(folder / "g.svg"), heat_map_svg(two_by_three()));
  EXPECT_THAT(
      text_thrown_by<IoError>([&] { two_by_three().save(folder / "g.csv", options); }),
      testing::AllOf(HasSubstr("expected a name ending in .svg, got '.csv'"), HasSubstr("leave out")));
  EXPECT_FALSE(std::filesystem::exists(folder / "g.csv"));
  EXPECT_THROW(two_by_three().save(folder / "h.svg", {.palette = "plaid"}), ConfigError);
  EXPECT_FALSE(std::filesystem::exists(folder / "h.svg"));
}

}  // namespace
}  // namespace hooked::grid_test
