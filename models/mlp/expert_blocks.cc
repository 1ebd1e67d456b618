#include "models/mlp/expert_blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <bit>
#include <cassert>
#include <tuple>

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

}  // namespace hooked
