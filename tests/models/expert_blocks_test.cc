#include <ATen/ops/topk.h>

#include <tuple>

#include "models/mlp/stacked_experts.h"
#include "tests/support/test.h"

namespace hooked::expert_blocks_test {
namespace {

// Different experts for each token, [token, rank].
at::Tensor chosen(std::int64_t tokens, std::int64_t ranks, std::int64_t experts) {
  const at::Tensor weights =
      at::rand({tokens, experts}, at::detail::createCPUGenerator(5), at::TensorOptions(at::kDouble));
  return std::get<1>(at::topk(weights, ranks, -1));
}

std::vector<std::int64_t> numbers(const at::Tensor& x) {
  const at::Tensor flat = x.to(at::kLong).contiguous();
  const auto* first = flat.const_data_ptr<std::int64_t>();
  return {first, first + flat.numel()};
}

// What a place (a token's rank) finds at its row.
void expect_at_each_place(const at::Tensor& experts_of_places, const ExpertBlocks& blocks) {
  const std::int64_t ranks = experts_of_places.size(1);
  const std::vector<std::int64_t> expected = numbers(experts_of_places);
  std::set<std::int64_t> rows;
  for (std::size_t place = 0; place < expected.size(); ++place) {
    const auto at = static_cast<std::int64_t>(place);
    const bool in_order = blocks.tokens.defined();  // else each block holds all tokens
    const std::int64_t row = blocks.row_of.defined() ? numbers(blocks.row_of)[place]
                             : in_order              ? at
                                                     : expected[place] * blocks.rows + at / ranks;
    ASSERT_LT(row, blocks.count * blocks.rows);
    const std::int64_t block = row / blocks.rows;
    EXPECT_EQ(blocks.experts.defined() ? numbers(blocks.experts)[static_cast<std::size_t>(block)] : block,
              expected[place]);
    EXPECT_EQ(
        blocks.tokens.defined() ? numbers(blocks.tokens)[static_cast<std::size_t>(row)] : row % blocks.rows,
        at / ranks);
    EXPECT_TRUE(rows.insert(row).second) << "two places share row " << row;
  }
  if (blocks.experts.defined()) {
    EXPECT_EQ(blocks.experts.numel(), blocks.count);
    EXPECT_GE(blocks.experts.min().item<std::int64_t>(), 0);
  }
}

TEST(ExpertBlocks, HoldEachTokenInABlockOfItsExpert) {
  for (const auto& [tokens, ranks, experts] : {std::tuple{1, 2, 5}, {7, 1, 3}, {40, 3, 6}, {33, 4, 4}}) {
    const at::Tensor who = chosen(tokens, ranks, experts);
    for (const ExpertWay way : {ExpertWay{ExpertWay::by_place, 1}, ExpertWay{ExpertWay::by_expert, tokens},
                                ExpertWay{ExpertWay::blocks, 1}, ExpertWay{ExpertWay::blocks, 4},
                                ExpertWay{ExpertWay::blocks, 64}}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens, way " << int{way.kind} << ", rows " << way.rows);
      expect_at_each_place(who, blocks_of(who, experts, way));
    }
  }
}

TEST(ExpertBlocks, AreEnoughWhereverTokensGo) {
  // All to one expert; and one row more than full blocks for each of them.
  for (const std::int64_t expert : {0, 2, 4}) {
    const at::Tensor who = at::zeros({17, 1}, at::kLong).fill_(expert);
    expect_at_each_place(who, blocks_of(who, 5, {ExpertWay::blocks, 4}));
  }
  at::Tensor uneven = at::zeros({25, 1}, at::kLong);
  for (std::int64_t token = 0; token < 25; ++token) uneven[token] = token / 5;
  expect_at_each_place(uneven, blocks_of(uneven, 5, {ExpertWay::blocks, 4}));
}

TEST(ExpertGroups, LieByExpert) {
  const at::Tensor who = chosen(29, 3, 7);
  const ExpertGroups groups = groups_of(who, 7);
  const std::vector<std::int64_t> experts = numbers(groups.experts), ends = numbers(groups.ends);
  EXPECT_EQ(groups.ends.scalar_type(), at::kInt);
  EXPECT_TRUE(std::ranges::is_sorted(experts));
  for (std::int64_t e = 0; e < 7; ++e) {
    EXPECT_EQ(ends[static_cast<std::size_t>(e)], std::ranges::upper_bound(experts, e) - experts.begin());
  }
  for (std::int64_t place = 0; place < who.numel(); ++place) {
    const auto row = static_cast<std::size_t>(numbers(groups.row_of)[static_cast<std::size_t>(place)]);
    EXPECT_EQ(experts[row], numbers(who)[static_cast<std::size_t>(place)]);
    EXPECT_EQ(numbers(groups.tokens)[row], place / 3);
  }
}

TEST(ExpertWay, IsChosenBySizes) {
  constexpr std::int64_t kRow = 8192;
  const auto way = [](std::int64_t tokens, std::int64_t ranks, std::int64_t experts) {
    return way_of({.tokens = tokens, .ranks = ranks, .experts = experts, .row_bytes = kRow});
  };
  // A step of a generation: with few experts all are read, with many only the chosen ones.
  EXPECT_EQ(way(1, 2, 5), (ExpertWay{ExpertWay::by_expert, 1}));
  EXPECT_EQ(way(1, 2, 8), (ExpertWay{ExpertWay::by_place, 1}));
  EXPECT_EQ(way(1, 8, 256), (ExpertWay{ExpertWay::by_place, 1}));
  EXPECT_EQ(way(4, 2, 8).kind, ExpertWay::by_expert);
  // A long prompt: no expert computes tokens of the others.
  EXPECT_EQ(way(8192, 2, 8).kind, ExpertWay::blocks);
  EXPECT_EQ(way(4096, 8, 256).kind, ExpertWay::blocks);
  EXPECT_GE(way(8192, 2, 8).rows, way(4096, 8, 256).rows);
}

// A block of all tokens has one row for each of them.
TEST(ExpertWay, GivesEachRankARowWhereItReadsAnotherThing) {
  const auto way = [](std::int64_t ranks) {
    return way_of({.tokens = 4, .ranks = ranks, .experts = 3, .own_rows = true, .row_bytes = 64}).kind;
  };
  EXPECT_EQ(way(1), ExpertWay::by_expert);
  EXPECT_NE(way(2), ExpertWay::by_expert);
}

TEST(ExpertWay, TakesNoMoreMemoryThanItMay) {
  const RoutedSizes sizes{.tokens = 200, .ranks = 8, .experts = 256, .row_bytes = 2048};
  EXPECT_EQ(way_of(sizes).kind, ExpertWay::by_expert);
  RoutedSizes wide = sizes;
  wide.row_bytes = kMostExpertBytes / (200 * 256) + 1;
  EXPECT_EQ(way_of(wide).kind, ExpertWay::blocks);
}

}  // namespace
}  // namespace hooked::expert_blocks_test
