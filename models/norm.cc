#include "models/norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/sqrt.h>

#include <functional>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "models/recorded.h"
#include "models/sizes.h"
#include "models/workspace.h"

namespace hooked {
Norm::Layout stream_norm(const ModelConfig& config, NormKind kind, Norm::Points points, bool weighted) {
  return {.kind = kind,
          .points = points,
          .shape = {config.d_model},
          .weighted = weighted,
          .bias = weighted && config.norm_bias && kind == NormKind::layer_norm,
          .offset = config.norm_offset};
}

Norm::Norm(const Layout& layout, const GraphContext& context)
    : kind_(layout.kind),
      shape_(layout.shape),
      weight_shape_(layout.weight_shape.empty() ? layout.shape : layout.weight_shape),
      eps_(layout.eps.value_or(context.config.eps)),
      offset_(layout.weighted && layout.offset) {
  hook_scale_ = add_point(*this, layout.points.scale, context);
  hook_normalized_ = add_point(*this, layout.points.normalized, context);
  const std::int64_t size =
      std::accumulate(weight_shape_.begin(), weight_shape_.end(), std::int64_t{1}, std::multiplies<>());
  if (layout.weighted)
    w_ = register_parameter("w", at::empty({size}, context.options), /*requires_grad=*/false);
  if (layout.bias) b_ = register_parameter("b", at::empty({size}, context.options), /*requires_grad=*/false);
}

at::Tensor Norm::weight() const { return (offset_ ? w_ + 1.0 : w_).view(weight_shape_); }

at::Tensor Norm::weighted(const at::Tensor& normalized) const {
  if (!w_.defined()) return normalized;
  return b_.defined() ? at::addcmul(b_.view(weight_shape_), normalized, weight()) : normalized * weight();
}

std::optional<Norm::Rows> Norm::rows_of(const at::Tensor& x, const Run& run) const {
  if (run.workspace == nullptr) return std::nullopt;
  const std::int64_t last = -static_cast<std::int64_t>(shape_.size());
  const auto as_rows = [&](const at::Tensor& t) { return shape_.size() > 1 ? t.flatten(last) : t; };
  const auto along = [&](const at::Tensor& numbers) {
    return numbers.defined() ? as_rows(numbers.view(weight_shape_)) : at::Tensor();
  };
  Rows rows{as_rows(without_history(x)),
            {.centred = kind_ == NormKind::layer_norm,
             .eps = eps_,
             .weight = along(w_),
             .bias = along(b_),
             .offset = offset_}};
  if (!can_norm_rows(rows.x, rows.how)) return std::nullopt;
  return rows;
}

at::Tensor Norm::without_points(const at::Tensor& x, const Run& run) const {
  if (const auto rows = rows_of(x, run)) {
    at::Tensor normed = run.workspace->empty(rows->x.sizes(), x.options());
    norm_rows_into({.weighted = normed}, rows->x, rows->how);
    return recorded_norm(normed.view(x.sizes()), x, *rows, run);
  }
  // The kernels multiply by a weight of the normed axes only.
  if (weight_shape_ != shape_) return weighted(without_weight(x));
  const std::optional<at::Tensor> w = w_.defined() ? std::optional(weight()) : std::nullopt;
  if (kind_ == NormKind::rms_norm) return at::rms_norm(x, shape_, w, eps_);
  const std::optional<at::Tensor> b = b_.defined() ? std::optional(b_.view(shape_)) : std::nullopt;
  return std::get<0>(at::native_layer_norm(x, shape_, w, b, eps_));
}

at::Tensor Norm::recorded_norm(const at::Tensor& normed, const at::Tensor& x, const Rows& rows,
                               const Run& run) const {
  if (!records(x)) return normed;
  return recorded(normed, {x}, [memory = *run.workspace, rows](const at::Tensor& gradient) {
    const at::Tensor passed = memory.empty(rows.x.sizes(), rows.x.options());
    norm_rows_back_into(passed, gradient.reshape(rows.x.sizes()).contiguous(), rows.x, rows.how);
    return std::vector{passed.view(gradient.sizes())};
  });
}

at::Tensor Norm::without_weight(const at::Tensor& x) const {
  if (kind_ == NormKind::rms_norm) return at::rms_norm(x, shape_, std::nullopt, eps_);
  return std::get<0>(at::native_layer_norm(x, shape_, std::nullopt, std::nullopt, eps_));
}

at::Tensor Norm::forward(const at::Tensor& x, Run& run) const { return forward_with_edits(x, run).normed; }

Norm::Output Norm::forward_with_edits(const at::Tensor& x, Run& run) const {
  if (!watched(run)) return {without_points(x, run), false};

  std::vector<std::int64_t> dims(shape_.size());
  std::iota(dims.begin(), dims.end(), -static_cast<std::int64_t>(dims.size()));
  at::Tensor scale, normalized;
  const auto precise = [&] { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); };
  const auto centred = [&] {
    const at::Tensor input = precise();
    return kind_ == NormKind::layer_norm ? input - input.mean(dims, /*keepdim=*/true) : input;
  };
  at::Tensor dividend;
  NormedRows made;
  const bool changes =
      run.watch.may_change(hook_scale_->number()) || run.watch.may_change(hook_normalized_->number());
  // Gradients pass through the two points, or by our kernel behind them.
  const bool passes_points = run.watch.wants_gradient(hook_scale_->number()) ||
                             run.watch.wants_gradient(hook_normalized_->number()) || (changes && records(x));
  const auto rows = passes_points ? std::nullopt : rows_of(x, run);
  if (rows) {
    made.normalized = run.workspace->empty(rows->x.sizes(), x.options());
    made.scale = at::empty(with_last_size(rows->x, 1), x.options().dtype(at::kFloat));
    if (w_.defined() && !changes) made.weighted = run.workspace->empty(rows->x.sizes(), x.options());
    norm_rows_into(made, rows->x, rows->how);
    normalized = made.normalized.view(x.sizes());
    scale = shape_.size() > 1 ? made.scale.unsqueeze(-1) : made.scale;
  } else {
    dividend = centred();
    scale = at::sqrt(dividend.square().mean(dims, /*keepdim=*/true) + eps_);
  }
  const at::Tensor seen_scale = hook_scale_->forward(scale, run.watch);
  const bool scale_edited = !seen_scale.is_same(scale) && run.watch.may_change(hook_scale_->number());
  if (!normalized.defined() || scale_edited) {
    if (!dividend.defined()) dividend = centred();
    normalized = (dividend / seen_scale).to(x.scalar_type());
  }
  const at::Tensor seen = hook_normalized_->forward(normalized, run.watch);
  const bool edited =
      scale_edited || (!seen.is_same(normalized) && run.watch.may_change(hook_normalized_->number()));
  if (made.weighted.defined()) return {recorded_norm(made.weighted.view(x.sizes()), x, *rows, run), edited};
  if (rows && !w_.defined()) return {recorded_norm(seen, x, *rows, run), edited};
  return {weighted(seen), edited};
}

void Norm::share_weights_of(const Norm& other) {
  w_ = other.w_;
  b_ = other.b_;
  offset_ = other.offset_;
}

WeightSlots Norm::slots(const std::string& path) const {
  WeightSlots slots;
  add_slot(slots, path + ".w", w_);
  add_slot(slots, path + ".b", b_);
  return slots;
}

}  // namespace hooked
