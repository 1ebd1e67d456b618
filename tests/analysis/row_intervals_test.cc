// Intervals and tests of means over rows, against scipy.stats 1.15 and against all draws that there are.
#include "hooked/analysis/row_intervals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "hooked/analysis/heat_map.h"
#include "hooked/analysis/line_plot.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

namespace hooked::row_intervals_test {
namespace {

using testing::ContainsRegex;

Grid of_rows(const std::vector<double>& numbers, const std::string& title = "scores") {
  GridAxis rows{.name = "row", .labels = {}};
  for (std::size_t i = 0; i < numbers.size(); ++i) rows.labels.push_back(std::to_string(i));
  return Grid(at::tensor(numbers, at::kDouble), {rows}, {.title = title, .unit = "nats"});
}

std::pair<double, double> ends(const Grid& grid, std::int64_t flat = 0) {
  return {grid.interval()->low.flatten()[flat].item<double>(),
          grid.interval()->high.flatten()[flat].item<double>()};
}

const std::vector<double> kSkewed{0.31, 1.72, -0.44, 2.95, 0.08, 0.91, 5.2, -1.3, 0.66, 1.05, 0.2, 3.4};

struct Bootstrap {
  IntervalMethod method;
  double level, low, high;  // scipy.stats.bootstrap, 400000 resamples
};

TEST(MeanInterval, AgreesWithScipy) {
  for (const auto& [method, level, low, high] :
       {Bootstrap{IntervalMethod::percentile, 0.95, 0.304167, 2.27},
        Bootstrap{IntervalMethod::percentile, 0.8, 0.594167, 1.88925},
        Bootstrap{IntervalMethod::bca, 0.95, 0.3975, 2.420833},
        Bootstrap{IntervalMethod::bca, 0.8, 0.660833, 1.979167}}) {
    const Grid mean =
        mean_interval(of_rows(kSkewed), {.level = level, .method = method, .resamples = 100000});
    EXPECT_NEAR(mean.at({}), 14.74 / 12, 1e-12);
    EXPECT_NEAR(ends(mean).first, low, 0.02);
    EXPECT_NEAR(ends(mean).second, high, 0.02);
  }
}

// Of three rows there are 27 draws: the quantiles of all of them.
TEST(MeanInterval, HasTheQuantilesOfAllDraws) {
  const std::vector<double> x{0.0, 1.0, 10.0};
  std::vector<double> means;
  for (const double a : x)
    for (const double b : x)
      for (const double c : x) means.push_back((a + b + c) / 3);
  std::ranges::sort(means);
  // 1/27 of the draws are 0, 0, 0, and as many 10, 10, 10.
  const Grid mean = mean_interval(of_rows(x), {.level = 0.9, .resamples = 20000});
  EXPECT_NEAR(ends(mean).first, means[1], 1e-9);
  EXPECT_NEAR(ends(mean).second, means[25], 1e-9);
}

TEST(MeanInterval, IsTheSameForTheSameSeedAndLeavesOutMissingRows) {
  const double nan = std::nan("");
  const Grid two(at::tensor({1.0, nan, 2.0, 5.0, 4.0, nan, 6.0, nan}, at::kDouble).view({4, 2}),
                 {{"row", {"0", "1", "2", "3"}}, {"layer", {"0", "1"}}}, {.title = "t", .unit = "u"});
  const Grid mean = mean_interval(two, {.seed = 3});
  EXPECT_NEAR(mean.at({0}), 13.0 / 4, 1e-12);
  EXPECT_EQ(mean.at({1}), 5.0);
  EXPECT_TRUE(std::isnan(ends(mean, 1).first)) << "one row says nothing";
  EXPECT_EQ(ends(mean), ends(mean_interval(two, {.seed = 3})));
  EXPECT_NE(ends(mean), ends(mean_interval(two, {.resamples = 7, .seed = 4})));
  const Grid same = mean_interval(of_rows({2.0, 2.0, 2.0}), {.method = IntervalMethod::bca});
  EXPECT_EQ(ends(same), std::pair(2.0, 2.0));
}

TEST(MeanInterval, Refuses) {
  EXPECT_THAT(text_thrown_by<ShapeError>([] { mean_interval(of_rows({1.0})); }),
              HasSubstr("has 1 places; expected 2 or more"));
  EXPECT_THAT(text_thrown_by<ShapeError>([] {
                mean_interval(of_rows({1.0, 2.0}), {.axis = "pair"});
              }),
              HasSubstr("no axis 'pair'"));
  EXPECT_THAT(text_thrown_by<ConfigError>([] {
                mean_interval(of_rows({1.0, 2.0}), {.level = 95});
              }),
              HasSubstr("got 95"));
  EXPECT_THAT(text_thrown_by<ConfigError>([] {
                mean_interval(of_rows({1.0, 2.0}), {.resamples = 0});
              }),
              HasSubstr("expected 1 resample or more"));
}

TEST(DifferenceTest, EnumeratesAllSigns) {
  const Grid a = of_rows({0.9, 1.4, 0.2, 2.2, 1.1, 0.7, 1.9}),
             b = of_rows({0.4, 1.5, 0.1, 1.2, 0.3, 0.9, 0.8});
  const DifferenceTest test = difference_test(a, b);
  EXPECT_TRUE(test.exact);
  EXPECT_EQ(test.draws, 128);
  EXPECT_NEAR(test.difference.at({}), 0.457142857142857, 1e-12);
  EXPECT_NEAR(test.p.at({}), 0.109375, 1e-12) << "scipy.stats.permutation_test, exact";
  EXPECT_EQ(difference_test(a, a).p.at({}), 1.0);
}

TEST(DifferenceTest, DrawsSignsOfManyRows) {
  std::vector<double> a, b;
  for (int i = 0; i < 40; ++i) {
    a.push_back(std::sin(i * 1.7) + 0.25);
    b.push_back(std::cos(i * 0.9) * 0.5);
  }
  const DifferenceTest test = difference_test(of_rows(a), of_rows(b), {.resamples = 100000, .seed = 5});
  EXPECT_FALSE(test.exact);
  EXPECT_NEAR(test.p.at({}), 0.0354, 0.003) << "scipy.stats.permutation_test of 200000";
  EXPECT_GT(difference_test(of_rows(a), of_rows(b), {.resamples = 3}).p.at({}), 0.0);
}

TEST(DifferenceTest, KeepsCellsApart) {
  const double nan = std::nan("");
  const Grid left(at::tensor({1.0, nan, 2.0, nan, 3.0, nan}, at::kDouble).view({3, 2}),
                  {{"row", {"0", "1", "2"}}, {"layer", {"0", "1"}}}, {.title = "l", .unit = "nats"});
  const DifferenceTest test = difference_test(left, of_rows({0.0, 0.0, 0.0}));
  EXPECT_NEAR(test.p.at({0}), 0.25, 1e-12) << "two of eight";
  EXPECT_TRUE(std::isnan(test.p.at({1})));
}

TEST(ShareInterval, IsWilsons) {
  const Grid hits = of_rows({0, 7, 95, 10, 0}), trials = of_rows({10, 10, 100, 10, 0});
  const Grid share = share_interval(hits, trials);
  const std::vector<std::pair<double, double>> scipy{{0, 0.27753279986288926},
                                                     {0.39677814746114526, 0.892208732593699},
                                                     {0.8882495307680809, 0.978456320845632},
                                                     {0.7224672001371109, 1.0},
                                                     {0, 1}};
  for (std::size_t i = 0; i < scipy.size(); ++i) {
    const auto [low, high] = ends(share, static_cast<std::int64_t>(i));
    EXPECT_NEAR(low, scipy[i].first, 1e-12) << i;
    EXPECT_NEAR(high, scipy[i].second, 1e-12) << i;
  }
  EXPECT_NEAR(ends(share_interval(hits, trials, 0.8), 1).first, 0.49737170523975094, 1e-12);
  EXPECT_NEAR(share.at({1}), 0.7, 1e-12);
}

Grid with_ranges() {
  const double nan = std::nan("");
  const Grid grid(at::tensor({0.5, -1.25, 2.0, 3.0}, at::kDouble).view({2, 2}),
                  {{"layer", {"0", "1"}}, {"pos", {"0", "1"}}}, {.title = "t", .unit = "u"});
  return grid.with_interval({at::tensor({0.25, -2.0, nan, 1.0}, at::kDouble).view({2, 2}),
                             at::tensor({0.75, -1.0, nan, 3.5}, at::kDouble).view({2, 2}),
                             "95 % bootstrap over 8 rows, seed 0"});
}

TEST(GridInterval, FollowsTheNumbers) {
  const Grid grid = with_ranges();
  EXPECT_EQ(ends(grid.slice("layer", 1), 1), std::pair(1.0, 3.5));
  EXPECT_EQ(ends(grid * -2, 3), std::pair(-7.0, -2.0));
  EXPECT_EQ(ends(grid - 1.0, 3), std::pair(0.0, 2.5));
  EXPECT_EQ(ends(grid.rescaled(1, 0, "share"), 0), std::pair(0.25, 0.75));
  EXPECT_EQ(ends(grid.with_title("a").with_unit("b").with_labels("pos", {"x", "y"}), 3), std::pair(1.0, 3.5));
  EXPECT_FALSE(grid.mean("pos").interval());
  EXPECT_FALSE((grid - grid).interval());
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                grid.with_interval({at::zeros({2}, at::kDouble), at::zeros({2}, at::kDouble), ""});
              }),
              HasSubstr("'low' of the interval does not fit"));
}

TEST(GridInterval, IsSavedWithTheGrid) {
  const TempFolder folder;
  const Grid grid = with_ranges();
  for (const char* name : {"a.csv", "a.json", "a.safetensors"}) {
    grid.save(folder / name);
    const Grid again = Grid::load(folder / name);
    ASSERT_TRUE(again.interval()) << name;
    EXPECT_EQ(again.interval()->about, grid.interval()->about) << name;
    EXPECT_TRUE(at::equal(again.interval()->low.nan_to_num(9), grid.interval()->low.nan_to_num(9))) << name;
    EXPECT_TRUE(at::equal(again.interval()->high.nan_to_num(9), grid.interval()->high.nan_to_num(9))) << name;
    EXPECT_TRUE(at::equal(again.values(), grid.values())) << name;
    EXPECT_EQ(again.axes(), grid.axes()) << name;
  }
  EXPECT_THAT(grid.to_csv(),
              HasSubstr("layer,pos,value,low,high,interval,unit,title\n0,0,0.5,0.25,0.75,\"95 %"));
}

TEST(GridInterval, IsShown) {
  std::ostringstream out;
  out << with_ranges();
  EXPECT_THAT(out.str(), AllOf(HasSubstr("in brackets: 95 % bootstrap"), HasSubstr("0.500 [0.250, 0.750]"),
                               HasSubstr("2.000     3.000 [")));
  const std::string plot = line_plot_svg(with_ranges());
  std::size_t whiskers = 0;
  for (auto at = plot.find("class=\"whisker\""); at != std::string::npos;
       at = plot.find("class=\"whisker\"", at + 1))
    ++whiskers;
  EXPECT_EQ(whiskers, 3U) << "one for each number with a range";
  EXPECT_THAT(plot, AllOf(HasSubstr("whiskers: 95 % bootstrap"), HasSubstr("0.5 [0.25, 0.75]")));
  EXPECT_THAT(heat_map_svg(with_ranges()), HasSubstr("0.5 [0.25, 0.75]"));
  // The axis reaches the ends of the whiskers: the number itself ends at 3, its range at 30.
  const Grid high = of_rows({1.0, 3.0})
                        .with_interval({at::tensor({0.5, 2.0}, at::kDouble),
                                        at::tensor({1.5, 30.0}, at::kDouble), "range"});
  EXPECT_THAT(line_plot_svg(high), HasSubstr(">30<"));
}

}  // namespace
}  // namespace hooked::row_intervals_test
