#include "models/sequence/attention_mask.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "core/to_device.h"

namespace hooked {
namespace {

// A tensor of one row is used for every row.
at::Tensor one_or_rows(const at::Tensor& x, const Span& rows) { return x.size(0) == 1 ? x : cut(x, 0, rows); }

at::Tensor column_numbers(const Span& span, const at::Tensor& like) {
  return at::arange(span.first, span.end, like.options().dtype(at::kLong));
}

// -inf where attention is forbidden, and the bias elsewhere; undefined if there is neither.
at::Tensor both_in_one(const at::Tensor& blocked, const at::Tensor& bias, at::ScalarType dtype) {
  if (!blocked.defined()) return bias;
  if (bias.defined()) return bias.masked_fill(blocked, kMasked);
  return at::zeros(blocked.sizes(), blocked.options().dtype(dtype)).masked_fill_(blocked, kMasked);
}

}  // namespace

at::Tensor cut(const at::Tensor& x, std::int64_t axis, const Span& span) {
  return x.narrow(axis, span.first, span.size());
}

ScoreBias ScoreBias::of(const at::Tensor& bias) {
  const at::Tensor starts =
      at::arange(bias.size(2), bias.options().dtype(at::kLong)).mul_(bias.size(3)).unsqueeze(0);
  const at::Tensor whole = bias.contiguous();
  return {whole.flatten(2), starts, whole};
}

AttentionMask::AttentionMask(Sizes sizes, VisibleKeys visible, ScoreBias bias)
    : sizes_(sizes), visible_(std::move(visible)), bias_(std::move(bias)) {}

ScoreTile AttentionMask::everything() const {
  const auto rows_in = [](const at::Tensor& x) { return x.defined() ? x.size(0) : 1; };
  return {.rows = {0, std::max({rows_in(visible_.first), rows_in(visible_.real), rows_in(bias_.values),
                                rows_in(bias_.starts)})},
          .heads = {0, bias_.values.defined() ? bias_.values.size(1) : 1},
          .queries = {0, sizes_.queries},
          .keys = {0, sizes_.keys}};
}

Span AttentionMask::seen_by(const Span& queries, std::int64_t keys) const {
  Span seen{.first = 0, .end = keys};
  if (!visible_.first.defined() || !visible_.first.device().is_cpu()) return seen;
  seen = {.first = keys, .end = 0};
  const std::int64_t rows = visible_.first.size(0), length = visible_.first.size(1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto* first = visible_.first.const_data_ptr<std::int64_t>() + row * length;
    const auto* end = visible_.end.const_data_ptr<std::int64_t>() + row * length;
    seen.first = std::min(seen.first, *std::min_element(first + queries.first, first + queries.end));
    seen.end = std::max(seen.end, *std::max_element(end + queries.first, end + queries.end));
  }
  return seen;
}

AttentionMask AttentionMask::of_queries(const at::Tensor& queries) const {
  const auto some = [&](const at::Tensor& x, std::int64_t axis) {
    return x.defined() ? x.index_select(axis, queries) : x;
  };
  // Values of a whole bias stay in place: the starts say which stretch belongs to a query.
  return {{.queries = queries.size(0), .keys = sizes_.keys},
          {.first = some(visible_.first, 1), .end = some(visible_.end, 1), .real = visible_.real},
          {.values = bias_.values, .starts = some(bias_.starts, 1), .whole = some(bias_.whole, 2)}};
}

AttentionMask AttentionMask::on(const c10::Device& device) const {
  AttentionMask there = *this;
  for (at::Tensor* x :
       {&there.visible_.first, &there.visible_.end, &there.visible_.real, &there.bias_.values,
        &there.bias_.starts, &there.bias_.whole, &there.all_blocked_, &there.all_bias_, &there.summand_}) {
    if (x->defined()) *x = to_device(*x, device);
  }
  return there;
}

at::Tensor AttentionMask::blocked(const ScoreTile& tile) const {
  at::Tensor blocked;  // [1 or rows, query, key]
  if (visible_.first.defined()) {
    const at::Tensor keys = column_numbers(tile.keys, visible_.first);
    const auto limit = [&](const at::Tensor& of_all) {
      return cut(one_or_rows(of_all, tile.rows), 1, tile.queries).unsqueeze(-1);
    };
    blocked = (keys < limit(visible_.first)).logical_or_(keys >= limit(visible_.end));
  }
  if (visible_.real.defined()) {
    const at::Tensor padding =
        cut(one_or_rows(visible_.real, tile.rows), 1, tile.keys).logical_not().unsqueeze(1);
    blocked = blocked.defined() ? blocked.logical_or(padding) : padding.expand({-1, tile.queries.size(), -1});
  }
  return blocked.defined() ? blocked.unsqueeze(1) : blocked;
}

at::Tensor AttentionMask::bias(const ScoreTile& tile) const {
  if (!bias_.values.defined()) return {};
  if (bias_.whole.defined()) {
    const at::Tensor rows = cut(one_or_rows(bias_.whole, tile.rows), 1, tile.heads);
    return cut(cut(rows, 2, tile.queries), 3, tile.keys);
  }
  const at::Tensor values = cut(one_or_rows(bias_.values, tile.rows), 1, tile.heads);
  const at::Tensor numbers = cut(one_or_rows(bias_.starts, tile.rows), 1, tile.queries).unsqueeze(-1) +
                             column_numbers(tile.keys, bias_.starts);  // [1 or rows, query, key]
  const std::int64_t rows = std::max(values.size(0), numbers.size(0)), heads = values.size(1);
  // Padding may be at any distance, and nobody attends to it.
  const at::Tensor places = numbers.clamp(0, values.size(2) - 1).flatten(1).unsqueeze(1);
  return at::gather(values.expand({rows, -1, -1}), 2, places.expand({rows, heads, -1}))
      .view({rows, heads, tile.queries.size(), tile.keys.size()});
}

const at::Tensor& AttentionMask::blocked() const {
  if (!all_blocked_.defined()) all_blocked_ = blocked(everything());
  return all_blocked_;
}

const at::Tensor& AttentionMask::bias() const {
  if (!all_bias_.defined()) all_bias_ = bias_.whole.defined() ? bias_.whole : bias(everything());
  return all_bias_;
}

const at::Tensor& AttentionMask::summand(at::ScalarType dtype) const {
  if (!summand_.defined()) summand_ = both_in_one(blocked(), bias(), dtype);
  return summand_;
}

at::Tensor AttentionMask::summand(const ScoreTile& tile, at::ScalarType dtype) const {
  return both_in_one(blocked(tile), bias(tile), dtype);
}

}  // namespace hooked
