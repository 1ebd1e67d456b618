#include "models/mlp/stacked_experts.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "models/storage/workspace.h"
#include "tests/support/relative_difference.h"

namespace hooked::stacked_experts_test {
namespace {

struct Sizes {
  std::int64_t tokens, ranks, experts, d_model, d_expert;
  bool biased;
  bool weighted_inputs = false;
};

// A mixture of random numbers.
struct Mixture {
  explicit Mixture(const Sizes& of, at::ScalarType dtype = at::kDouble) : sizes(of) {
    auto generator = at::detail::createCPUGenerator(11);
    const auto random = [&](at::IntArrayRef shape) {
      return (at::rand(shape, generator, at::TensorOptions(at::kDouble)) * 2.0 - 1.0).to(dtype);
    };
    weights.W_in = random({of.experts, 2 * of.d_expert, of.d_model});
    weights.W_out = random({of.experts, of.d_model, of.d_expert});
    if (of.biased) {
      weights.b_in = random({of.experts, 2 * of.d_expert});
      weights.b_out = random({of.experts, of.d_model});
    }
    tokens = random({of.tokens, of.d_model});
    const auto [values, experts] = at::topk(random({of.tokens, of.experts}), of.ranks, -1);
    chosen = {experts, values};
  }

  StackedExperts experts(const Neurons& neurons, bool in_groups = false) const {
    return {weights, neurons, in_groups, sizes.weighted_inputs};
  }

  Sizes sizes;
  StackedExperts::Weights weights;
  at::Tensor tokens;  // [token, d_model]
  StackedExperts::Chosen chosen;
};

const Neurons kSilu{.activation = Activation::silu, .gated = true};
// As gpt-oss.
const Neurons kLimited{
    .activation = Activation::swish_with(1.702), .gated = true, .gate_limit = 0.7, .up_offset = true};

// Token by token and rank by rank, without any of the tested code.
at::Tensor by_loops(const Mixture& m, const Neurons& neurons) {
  std::vector<at::Tensor> rows;
  for (std::int64_t token = 0; token < m.sizes.tokens; ++token) {
    at::Tensor sum;
    for (std::int64_t rank = 0; rank < m.sizes.ranks; ++rank) {
      const auto e = m.chosen.experts[token][rank].item<std::int64_t>();
      const at::Tensor weight = m.chosen.weights[token][rank];
      const at::Tensor read = m.sizes.weighted_inputs ? m.tokens[token] * weight : m.tokens[token];
      at::Tensor both = m.weights.W_in[e].matmul(read);
      if (m.sizes.biased) both = both + m.weights.b_in[e];
      at::Tensor gate = both.narrow(0, 0, m.sizes.d_expert);
      at::Tensor up = both.narrow(0, m.sizes.d_expert, m.sizes.d_expert);
      const bool limited = neurons.gate_limit > 0;
      if (limited) {
        gate = at::clamp_max(gate, neurons.gate_limit);
        up = at::clamp(up, -neurons.gate_limit, neurons.gate_limit) + 1.0;
      }
      at::Tensor out = m.weights.W_out[e].matmul(gate * at::sigmoid(gate * (limited ? 1.702 : 1.0)) * up);
      if (m.sizes.biased) out = out + m.weights.b_out[e];
      if (!m.sizes.weighted_inputs) out = out * weight;
      sum = sum.defined() ? sum + out : out;
    }
    rows.push_back(sum);
  }
  return at::stack(rows);
}

std::vector<ExpertWay> all_ways(const Sizes& sizes) {
  return {{ExpertWay::by_place, 1},
          {ExpertWay::by_expert, sizes.tokens},
          {ExpertWay::blocks, 2},
          {ExpertWay::blocks, 16}};
}

const Sizes kSizes[] = {
    {.tokens = 1, .ranks = 2, .experts = 4, .d_model = 6, .d_expert = 5, .biased = true},
    {.tokens = 23, .ranks = 3, .experts = 5, .d_model = 6, .d_expert = 5, .biased = true},
    {.tokens = 9, .ranks = 1, .experts = 8, .d_model = 4, .d_expert = 3, .biased = false},
    {.tokens = 12, .ranks = 4, .experts = 4, .d_model = 7, .d_expert = 2, .biased = false},
    {.tokens = 1,
     .ranks = 1,
     .experts = 3,
     .d_model = 6,
     .d_expert = 5,
     .biased = false,
     .weighted_inputs = true},
    {.tokens = 19,
     .ranks = 2,
     .experts = 5,
     .d_model = 6,
     .d_expert = 5,
     .biased = true,
     .weighted_inputs = true}};

TEST(StackedExperts, WriteWhatEachOfThemWouldInEveryWay) {
  const Workspace workspace;
  for (const Sizes& sizes : kSizes) {
    const Mixture mixture(sizes);
    for (const Neurons& neurons : {kSilu, kLimited}) {
      const at::Tensor expected = by_loops(mixture, neurons);
      for (const ExpertWay& way : all_ways(sizes)) {
        SCOPED_TRACE(testing::Message() << sizes.tokens << " tokens, way " << int{way.kind});
        const auto experts = mixture.experts(neurons);
        const at::Tensor sums = experts.forward(mixture.tokens, mixture.chosen, {&workspace}, way);
        EXPECT_EQ(sums.sizes(), mixture.tokens.sizes());
        EXPECT_LT(relative_difference(sums, expected), 1e-12);
        // Without a workspace, as in training's runs.
        EXPECT_LT(
            relative_difference(experts.forward(mixture.tokens, mixture.chosen, {nullptr}, way), expected),
            1e-12);
      }
    }
  }
}

TEST(StackedExperts, PassGradientsBack) {
  const Workspace workspace;
  for (const Sizes& sizes : {kSizes[1], kSizes[5]}) {
    const Mixture mixture(sizes);
    const auto gradients = [&](const auto& forward) {
      Mixture leaf = mixture;
      leaf.tokens = mixture.tokens.clone().set_requires_grad(true);
      leaf.chosen.weights = mixture.chosen.weights.clone().set_requires_grad(true);
      forward(leaf).sin().sum().backward();
      return std::pair{leaf.tokens.grad(), leaf.chosen.weights.grad()};
    };
    const auto expected = gradients([](const Mixture& m) { return by_loops(m, kLimited); });
    for (const ExpertWay& way : all_ways(mixture.sizes)) {
      const auto got = gradients([&](const Mixture& m) {
        return m.experts(kLimited).forward(m.tokens, m.chosen, {&workspace}, way);
      });
      EXPECT_LT(relative_difference(got.first, expected.first), 1e-12) << int{way.kind};
      EXPECT_LT(relative_difference(got.second, expected.second), 1e-12) << int{way.kind};
    }
  }
}

// Edits may send a token to one expert twice, which then reads it twice.
TEST(StackedExperts, ReadATokenTwiceWithItsWeights) {
  const Workspace workspace;
  Mixture mixture(kSizes[5]);
  mixture.chosen.experts.fill_(3);
  const at::Tensor sums = mixture.experts(kSilu).forward(mixture.tokens, mixture.chosen, {&workspace});
  EXPECT_LT(relative_difference(sums, by_loops(mixture, kSilu)), 1e-12);
}

TEST(StackedExperts, GoInGroupsWhereTheDeviceDoes) {
  const Workspace workspace;
  for (const bool biased : {false, true}) {
    const Sizes sizes{.tokens = 21,
                      .ranks = 2,
                      .experts = 6,
                      .d_model = 16,
                      .d_expert = 8,
                      .biased = biased,
                      .weighted_inputs = biased};
    const Mixture mixture(sizes, at::kFloat);
    const at::Tensor expected = by_loops(mixture, kSilu);
    const at::Tensor sums =
        mixture.experts(kSilu, /*in_groups=*/true).forward(mixture.tokens, mixture.chosen, {&workspace});
    EXPECT_LT(relative_difference(sums, expected), 1e-5);
  }
}

TEST(StackedExperts, GoInBlocksWhereRowsAreNotAligned) {
  const Workspace workspace;
  // Rows of 6 numbers: LibTorch's grouped products would refuse them.
  const Mixture mixture(kSizes[1], at::kFloat);
  const at::Tensor sums =
      mixture.experts(kSilu, /*in_groups=*/true).forward(mixture.tokens, mixture.chosen, {&workspace});
  EXPECT_LT(relative_difference(sums, by_loops(mixture, kSilu)), 1e-5);
}

TEST(StackedExperts, GoInStretchesWhereAllTogetherTakeTooMuchMemory) {
  const Workspace workspace;
  const Sizes sizes{.tokens = 4096, .ranks = 1, .experts = 3, .d_model = 4, .d_expert = 4096, .biased = true};
  const Mixture mixture(sizes, at::kFloat);
  const auto forward = [&](const ExpertWay& way) {
    return mixture.experts(kSilu).forward(mixture.tokens, mixture.chosen, {&workspace}, way);
  };
  EXPECT_LT(
      relative_difference(forward({ExpertWay::by_expert, sizes.tokens}), forward({ExpertWay::blocks, 512})),
      1e-4);
}

TEST(StackedExperts, KeepWhatOnePassesWrongFromTheOthers) {
  const Workspace workspace;
  Mixture mixture(kSizes[1]);
  mixture.weights.W_out.select(0, 2).fill_(std::numeric_limits<double>::quiet_NaN());
  const at::Tensor reads_it = (mixture.chosen.experts == 2).any(-1);
  for (const ExpertWay& way : all_ways(mixture.sizes)) {
    const at::Tensor sums = mixture.experts(kSilu).forward(mixture.tokens, mixture.chosen, {&workspace}, way);
    EXPECT_TRUE(sums.isnan().any(-1).equal(reads_it)) << int{way.kind};
  }
}

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
}  // namespace hooked::stacked_experts_test
