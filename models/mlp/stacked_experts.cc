#include "models/mlp/stacked_experts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>
#include <vector>

#include "models/ops/ops.h"

namespace hooked {
namespace {

// Reading a matrix takes as long as multiplying this many rows by one that is in cache, and copying it is one
// more read and a write.
constexpr std::int64_t kRowsOfAReading = 64;
constexpr std::int64_t kRowsOfACopy = 3 * kRowsOfAReading;
constexpr std::int64_t kFewestRows = 16, kMostRows = 4096;

std::int64_t most_blocks(std::int64_t places, std::int64_t rows, std::int64_t experts) {
  return places / rows + experts;  // each expert leaves less than a block unfilled
}

// Tokens and ranks ("places", numbered by token first), sorted by expert.
struct Sorted {
  at::Tensor experts;  // [place], ascending
  at::Tensor places;   // [place]
  at::Tensor bounds;   // [expert + 1]: where each expert's places begin, and where the last one's end
};

at::Tensor numbers_to(std::int64_t end, const at::Tensor& like) { return at::arange(end, like.options()); }

Sorted sorted(const at::Tensor& chosen, std::int64_t experts) {
  // Stable, so that repeated runs give the same results.
  auto [by_expert, places] = at::sort(chosen.flatten(), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  return {by_expert, places, at::searchsorted(by_expert, numbers_to(experts + 1, chosen))};
}

at::Tensor tokens_of(const Sorted& order, const at::Tensor& chosen) {
  return order.places.div(chosen.size(1), "floor");
}

// Row by place, for the rows of the places in their sorted order.
at::Tensor by_place(const Sorted& order, const at::Tensor& rows) {
  return at::empty_like(rows).scatter_(0, order.places, rows);
}

ExpertBlocks filled_blocks(const at::Tensor& chosen, std::int64_t experts, std::int64_t rows) {
  assert(std::has_single_bit(static_cast<std::uint64_t>(rows)));
  const std::int64_t places = chosen.numel(), count = most_blocks(places, rows, experts);
  const Sorted order = sorted(chosen, experts);
  const at::Tensor begins = order.bounds.narrow(0, 0, experts), ends = order.bounds.narrow(0, 1, experts);
  const at::Tensor blocks = (ends - begins).add_(rows - 1).div_(rows, "floor");  // [expert]
  const at::Tensor block_ends = blocks.cumsum(0);
  // The shift that moves an expert's sorted places to the beginning of its first block.
  const at::Tensor moved = at::sub(block_ends, blocks).mul_(rows).sub_(begins);
  const at::Tensor row = moved.index_select(0, order.experts).add_(numbers_to(places, chosen));
  return {.count = count,
          .rows = rows,
          .tokens = at::zeros({count * rows}, chosen.options()).scatter_(0, row, tokens_of(order, chosen)),
          .experts = at::searchsorted(block_ends, numbers_to(count, chosen), /*out_int32=*/false,
                                      /*right=*/true)
                         .clamp_max_(experts - 1),
          .row_of = by_place(order, row)};
}

// LibTorch's grouped products need rows that begin at multiples of this number of bytes.
constexpr std::int64_t kGroupAlignment = 16;

// Those of some blocks, from block `first` on.
at::Tensor of_blocks(const at::Tensor& of_experts, const at::Tensor& experts, std::int64_t first,
                     std::int64_t count) {
  return experts.defined() ? of_experts.index_select(0, experts.narrow(0, first, count))
                           : of_experts.narrow(0, first, count);
}

// Weights [token, rank] arranged as rows [row, one] by `row_of` [token * rank], zeros for unused rows;
// undefined: in order.
at::Tensor weights_of_rows(const at::Tensor& weights, const at::Tensor& row_of, std::int64_t rows) {
  const at::Tensor by_place = weights.reshape({-1});
  if (!row_of.defined()) return by_place.unsqueeze(1);
  return at::zeros({rows}, weights.options()).scatter(0, row_of, by_place).unsqueeze(1);
}

bool begins_aligned(const at::Tensor& matrices) {
  const std::int64_t size = matrices.element_size();
  return matrices.size(1) * size % kGroupAlignment == 0 && matrices.size(2) * size % kGroupAlignment == 0;
}

}  // namespace

ExpertWay way_of(const RoutedSizes& sizes) {
  const std::int64_t places = sizes.tokens * sizes.ranks;
  ExpertWay best{ExpertWay::by_place, 1};
  std::int64_t cost = places * (kRowsOfACopy + 1);
  const auto consider = [&](ExpertWay way, std::int64_t its_cost) {
    if (its_cost >= cost) return;
    best = way;
    cost = its_cost;
  };
  for (std::int64_t rows = kFewestRows; rows <= kMostRows; rows *= 2) {
    consider({ExpertWay::blocks, rows}, most_blocks(places, rows, sizes.experts) * (kRowsOfACopy + rows));
  }
  const bool one_row_serves = !sizes.own_rows || sizes.ranks == 1;
  if (one_row_serves && sizes.experts * sizes.tokens * sizes.row_bytes <= kMostExpertBytes) {
    consider({ExpertWay::by_expert, sizes.tokens}, sizes.experts * (kRowsOfAReading + sizes.tokens));
  }
  return best;
}

ExpertBlocks blocks_of(const at::Tensor& chosen, std::int64_t experts, const ExpertWay& way) {
  const std::int64_t tokens = chosen.size(0), ranks = chosen.size(1);
  switch (way.kind) {
    case ExpertWay::by_place:
      return {.count = tokens * ranks,
              .rows = 1,
              .tokens = numbers_to(tokens, chosen).unsqueeze(1).expand({tokens, ranks}).flatten(),
              .experts = chosen.flatten(),
              .row_of = {}};
    case ExpertWay::by_expert:
      return {.count = experts, .rows = tokens, .tokens = {}, .experts = {}, .row_of = {}};
    case ExpertWay::blocks:
    case ExpertWay::groups:
      break;
  }
  return filled_blocks(chosen, experts, way.rows);
}

ExpertGroups groups_of(const at::Tensor& chosen, std::int64_t experts) {
  const Sorted order = sorted(chosen, experts);
  return {.tokens = tokens_of(order, chosen),
          .experts = order.experts,
          .ends = order.bounds.narrow(0, 1, experts).to(at::kInt),
          .row_of = by_place(order, numbers_to(chosen.numel(), chosen))};
}

StackedExperts::StackedExperts(Weights weights, Neurons neurons, bool in_groups, bool weighted_inputs)
    : weights_(std::move(weights)),
      neurons_(neurons),
      in_groups_(in_groups && begins_aligned(weights_.W_in) && begins_aligned(weights_.W_out)),
      weighted_inputs_(weighted_inputs) {}

at::Tensor StackedExperts::neurons(const at::Tensor& both, Memory memory) const {
  const std::int64_t width = weights_.W_out.size(2);
  const auto parts = ops::split(both, {width, width}, -1, memory);
  return neurons_(parts[0], parts[1], {}, memory);
}

std::int64_t StackedExperts::blocks_at_a_time(const ExpertBlocks& blocks) const {
  const std::int64_t width = weights_.W_out.size(2), d_model = weights_.W_out.size(1);
  const std::int64_t copied = blocks.experts.defined() ? 3 * width * d_model : 0;
  const std::int64_t bytes = (copied + blocks.rows * (4 * width + d_model)) * weights_.W_in.element_size();
  return std::clamp<std::int64_t>(kMostExpertBytes / std::max<std::int64_t>(bytes, 1), 1, blocks.count);
}

at::Tensor StackedExperts::in_blocks(const at::Tensor& tokens, const ExpertBlocks& blocks,
                                     const at::Tensor& weights, Memory memory) const {
  const std::int64_t d_model = tokens.size(1);
  std::vector<at::Tensor> written;
  const std::int64_t stretch = blocks_at_a_time(blocks);
  for (std::int64_t first = 0; first < blocks.count; first += stretch) {
    const std::int64_t count = std::min(stretch, blocks.count - first);
    const auto product = [&](const at::Tensor& rows, const at::Tensor& matrices, const at::Tensor& biases) {
      const at::Tensor their = of_blocks(matrices, blocks.experts, first, count).transpose(1, 2);
      if (!biases.defined()) return at::bmm(rows, their);
      return at::baddbmm(of_blocks(biases, blocks.experts, first, count).unsqueeze(1), rows, their);
    };
    at::Tensor rows =
        blocks.tokens.defined()
            ? tokens.index_select(0, blocks.tokens.narrow(0, first * blocks.rows, count * blocks.rows))
                  .view({count, blocks.rows, d_model})
            : tokens.unsqueeze(0).expand({count, -1, -1});
    if (weights.defined()) {
      rows = rows * weights.narrow(0, first * blocks.rows, count * blocks.rows).view({count, blocks.rows, 1});
    }
    const at::Tensor post = neurons(product(rows, weights_.W_in, weights_.b_in), memory);
    written.push_back(product(post, weights_.W_out, weights_.b_out).view({-1, d_model}));
  }
  return written.size() == 1 ? written.front() : at::cat(written);
}

at::Tensor StackedExperts::in_groups(const at::Tensor& tokens, const ExpertGroups& groups,
                                     const at::Tensor& weights, Memory memory) const {
  const auto product = [&](const at::Tensor& rows, const at::Tensor& matrices, const at::Tensor& biases) {
    const at::Tensor made = at::_grouped_mm(rows, matrices.transpose(1, 2), groups.ends);
    return biases.defined() ? ops::add(made, biases.index_select(0, groups.experts), memory) : made;
  };
  at::Tensor rows = tokens.index_select(0, groups.tokens);
  if (weights.defined()) rows = rows * weights;
  return product(neurons(product(rows, weights_.W_in, weights_.b_in), memory), weights_.W_out,
                 weights_.b_out);
}

at::Tensor StackedExperts::forward(const at::Tensor& tokens, const Chosen& chosen, Memory memory,
                                   std::optional<ExpertWay> way) const {
  const std::int64_t n_tokens = tokens.size(0), ranks = chosen.experts.size(1);
  const std::int64_t experts = weights_.W_out.size(0);
  if (!way) {
    way = in_groups_ ? ExpertWay{ExpertWay::groups}
                     : way_of({.tokens = n_tokens,
                               .ranks = ranks,
                               .experts = experts,
                               .own_rows = weighted_inputs_,
                               .row_bytes = tokens.size(1) * tokens.element_size()});
  }
  at::Tensor written, row_of;
  if (way->kind == ExpertWay::groups) {
    const ExpertGroups groups = groups_of(chosen.experts, experts);
    const at::Tensor weights =
        weighted_inputs_ ? weights_of_rows(chosen.weights, groups.row_of, n_tokens * ranks) : at::Tensor();
    written = in_groups(tokens, groups, weights, memory);
    row_of = groups.row_of;
  } else {
    const ExpertBlocks blocks = blocks_of(chosen.experts, experts, *way);
    at::Tensor weights;
    if (weighted_inputs_ && way->kind == ExpertWay::by_expert) {
      weights = at::zeros({n_tokens, experts}, chosen.weights.options())
                    .scatter(1, chosen.experts, chosen.weights)
                    .t()
                    .reshape({-1, 1});
    } else if (weighted_inputs_) {
      weights = weights_of_rows(chosen.weights, blocks.row_of, blocks.count * blocks.rows);
    }
    written = in_blocks(tokens, blocks, weights, memory);
    row_of = blocks.row_of;
  }
  if (way->kind == ExpertWay::by_expert) {
    // Each expert has a row for each token: one operator picks those of the chosen experts.
    const std::int64_t d_model = tokens.size(1);
    written = at::gather(written.view({experts, n_tokens, d_model}).transpose(0, 1), 1,
                         chosen.experts.unsqueeze(-1).expand({n_tokens, ranks, d_model}));
  }
  if (row_of.defined()) written = written.index_select(0, row_of);
  if (weighted_inputs_) return written.view({n_tokens, ranks, tokens.size(1)}).sum(1);
  return at::bmm(chosen.weights.unsqueeze(1), written.view({n_tokens, ranks, tokens.size(1)})).squeeze(1);
}

}  // namespace hooked
