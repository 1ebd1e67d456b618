// What is done with grids: arithmetic, names, addresses of cells, and how numbers are printed.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>

#include <cmath>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "hooked/analysis/grid.h"
#include "tests/support/test.h"

namespace hooked::grid_arithmetic_test {
namespace {

Grid two_by_three() {
  return Grid(at::tensor({0.5, -1.25, 2.0, 3.0, 0.0, -10.0}, at::kDouble).view({2, 3}),
              {{"layer", {"0", "1"}}, {"pos", {"0 <bos>", "1 a,b", "2 \"c\""}}},
              {.title = "Patching resid_pre", .unit = "logit difference"});
}

TEST(GridArithmetic, WhatLacksAnAxisIsSubtractedAlongIt) {
  const auto grid = two_by_three();
  const auto change = grid - grid.slice("pos", 0);  // [layer, pos] - [layer]
  EXPECT_EQ(change.axes(), grid.axes());
  EXPECT_TRUE(change.values().equal(grid.values() - grid.values().narrow(1, 0, 1)));
  const Grid number(at::scalar_tensor(2.0, at::kDouble), {}, {.title = "one", .unit = grid.unit()});
  EXPECT_TRUE((grid - number).values().equal(grid.values() - 2));
}

// Two prompts have other tokens in the same columns.
TEST(GridArithmetic, ColumnsOfTwoPromptsAreTheSamePlaces) {
  const auto of_prompt = [](const std::string& name, double value) {
    return Grid(at::full({2}, value, at::kDouble), {{"pos", {"0 <bos>", "1  " + name}}},
                {.title = name, .unit = "logits"});
  };
  const Grid change = of_prompt("Mary", 3) - of_prompt("John", 1);
  EXPECT_EQ(change.at({1}), 2.0);
  EXPECT_EQ(change.axes()[0].labels, std::vector<std::string>({"0", "1"}));
  EXPECT_EQ((of_prompt("Mary", 3) - of_prompt("Mary", 1)).axes()[0].labels[1], "1  Mary");
  // Elsewhere the whole label counts.
  const auto of_heads = [](const std::string& layer) {
    return Grid(at::ones({1}, at::kDouble), {{"part", {"head " + layer}}}, {.title = "t", .unit = "u"});
  };
  EXPECT_THROW(of_heads("0.1") - of_heads("0.2"), ShapeError);
}

// A prompt may hold a word twice.
TEST(GridArithmetic, RepeatedLabelsAreThePlacesThatTheyAre) {
  const auto of_words = [](std::vector<double> values, std::vector<std::string> words) {
    return Grid(at::tensor(values), {{"word", std::move(words)}}, {.title = "t", .unit = "u"});
  };
  const Grid left = of_words({10, 11, 12}, {"the", "cat", "the"});
  const Grid right = of_words({0, 1, 2}, {"the", "cat", "the"});
  EXPECT_TRUE((left - right).values().eq(10).all().item<bool>());
  EXPECT_TRUE(left.rescaled(right, of_words({1, 2, 3}, {"the", "cat", "the"}), "u")
                  .values()
                  .eq(10)
                  .all()
                  .item<bool>());
  EXPECT_THROW(left - of_words({0, 1, 2}, {"the", "the", "cat"}), ShapeError);
  EXPECT_EQ((of_words({5, 7}, {"a", "b"}) - of_words({1, 2}, {"b", "a"})).at({0}), 3.0);
}

TEST(GridArithmetic, IsRenamedAndCalculatedWith) {
  const auto grid = two_by_three();
  const auto change =
      (2 * (grid - 1) + 0.5).with_title("Change").with_unit("nats").with_labels("layer", {"first", "second"});
  EXPECT_TRUE(change.values().equal((grid.values() - 1) * 2 + 0.5));
  EXPECT_EQ(change.title(), "Change");
  EXPECT_EQ(change.unit(), "nats");
  EXPECT_EQ(change.axes()[0].labels, std::vector<std::string>({"first", "second"}));
  EXPECT_EQ(change.axes()[1], grid.axes()[1]);
  EXPECT_EQ((grid - 1).title(), grid.title());
  EXPECT_THROW(grid.with_labels("layer", {"one"}), ShapeError);
}

// The address of a cell has the indices of all axes that its activation has.
TEST(GridArithmetic, CellsHaveWholeAddresses) {
  const std::vector<std::optional<Address>> layers{Address("blocks.0.attn.hook_z"),
                                                   Address("blocks.1.attn.hook_z")};
  const Grid heads(at::arange(12, at::kDouble).view({1, 2, 2, 3}),
                   {{"row", {"0"}},
                    {"layer", {"0", "1"}, layers},
                    {"head", {"0", "1"}},
                    {"pos", {"0 <bos>", "last  Mary", "subject"}}},
                   {.title = "t", .unit = "u"});
  EXPECT_EQ(heads.cell({0, 1, 1, 0}).place->to_string(), "blocks.1.attn.hook_z[head=1,pos=0]");
  EXPECT_EQ(heads.cell({0, 0, 1, 1}).place->to_string(), "blocks.0.attn.hook_z[head=1,pos=last]");
  EXPECT_FALSE(heads.cell({0, 0, -2, 2}).place) << "a place with a name may be another column in each row";
  EXPECT_EQ(heads.cell({0, 1, 1, 0}).value, 9.0);
  EXPECT_EQ(heads.largest(1)[0].labels, heads.cell({0, 1, 1, 2}).labels);
  EXPECT_THROW(heads.cell({0, 1}), ShapeError);
}

std::vector<std::string> printed(const std::vector<double>& numbers, const std::string& unit) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < numbers.size(); ++i) labels.push_back(std::to_string(i));
  std::ostringstream out;
  out << Grid(at::tensor(numbers, at::kDouble), {{"head", labels}}, {.title = "t", .unit = unit});
  std::istringstream words(out.str().substr(out.str().find('\n', out.str().find('\n') + 1)));
  return {std::istream_iterator<std::string>(words), {}};
}

TEST(GridTable, WritesNumbersInOneWay) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(printed({1497, 0, 3}, "rank"), Words({"1497", "0", "3"}));
  EXPECT_EQ(printed({0.5, -0.0001, NAN}, "logits"), Words({"0.500", "0.000", "nan"}));
  EXPECT_EQ(printed({-0.07, 0.0706, 0}, "logits"), Words({"-0.0700", "0.0706", "0.0000"}));
  EXPECT_EQ(printed({3e-7, -1.5e-8, 0}, "logits"), Words({"3.00e-07", "-1.50e-08", "0"}));
  EXPECT_EQ(printed({2.5e6, 1.5}, "logits"), Words({"2.50e+06", "1.50e+00"}));
  EXPECT_EQ(printed({0.971, 0.012, 3.1e-7, 0}, "probability"), Words({"0.971", "0.012", "3.1e-07", "0.000"}));
}

TEST(GridTable, TurnsATableThatIsWiderThanAPage) {
  std::vector<std::string> receivers;
  for (int i = 0; i < 12; ++i) receivers.push_back("head 10." + std::to_string(i) + " q");
  std::ostringstream out;
  out << Grid(at::full({2, 12}, 0.5, at::kDouble),
              {{"sender", {"head 0.2", "mlp 0"}}, {"receiver", receivers}},
              {.title = "Paths", .unit = "score"});
  std::istringstream lines(out.str());
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LT(line.size(), 100u);
    all.push_back(line);
  }
  ASSERT_EQ(all.size(), 14u);
  EXPECT_EQ(all[1], "receiver \\ sender  head 0.2  mlp 0");
  EXPECT_EQ(all[13], "     head 10.11 q     0.500  0.500");
}

}  // namespace
}  // namespace hooked::grid_arithmetic_test
