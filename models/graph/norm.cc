#include "models/graph/norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/sqrt.h>

#include <functional>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "hooks/norm_points.h"
#include "models/ops/recorded.h"
#include "models/storage/workspace.h"

namespace hooked {
namespace {

// The normed axes as one.
at::Tensor as_rows(const at::Tensor& x, std::size_t normed_axes) {
  return normed_axes > 1 ? x.flatten(-static_cast<std::int64_t>(normed_axes)) : x;
}

// The last `count` axes.
std::vector<std::int64_t> last_axes(std::size_t count) {
  std::vector<std::int64_t> axes(count);
  std::iota(axes.begin(), axes.end(), -static_cast<std::int64_t>(count));
  return axes;
}

}  // namespace

at::Tensor Division::dividend(const at::Tensor& x) const {
  const at::Tensor input = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  if (kind != NormKind::layer_norm) return input;
  return input - input.mean(last_axes(shape.size()), /*keepdim=*/true);
}

at::Tensor Division::scale(const at::Tensor& dividend) const {
  return at::sqrt(dividend.square().mean(last_axes(shape.size()), /*keepdim=*/true) + eps);
}

at::Tensor Division::normalized(const at::Tensor& x, Memory memory) const {
  const at::Tensor rows = as_rows(x, shape.size());
  const RowNorm how{.centred = kind == NormKind::layer_norm, .eps = eps};
  if (x.scalar_type() == dtype && can_norm_rows(rows, how)) {
    const at::Tensor normalized = memory.workspace->empty(rows.sizes(), x.options());
    norm_rows_into({.normalized = normalized}, rows, how);
    return normalized.view(x.sizes());
  }
  const at::Tensor from = dividend(x);
  return (from / scale(from)).to(dtype);
}

Norm::Layout stream_norm(const ModelConfig& config, NormKind kind, Site normalized, bool weighted) {
  return {.kind = kind,
          .normalized = normalized,
          .shape = {config.d_model},
          .weighted = weighted,
          .bias = weighted && config.norm_bias && kind == NormKind::layer_norm,
          .offset = config.norm_offset};
}

Norm::Layout outer_norm(const ModelConfig& config, NormKind kind, Site normalized) {
  Norm::Layout layout = stream_norm(config, kind, normalized, /*weighted=*/true);
  layout.offset = false;
  return layout;
}

std::shared_ptr<Norm> add_norm(torch::nn::Module& owner, const char* name, const Norm::Layout& layout,
                               const GraphContext& context) {
  return owner.register_module(name, std::make_shared<Norm>(layout, context));
}

Norm::Norm(const Layout& layout, const GraphContext& context)
    : division_{layout.kind, layout.shape, layout.eps.value_or(context.config.eps), context.config.dtype},
      weight_shape_(layout.weight_shape.empty() ? layout.shape : layout.weight_shape),
      offset_(layout.weighted && layout.offset) {
  if (!layout.silent) {
    const NormPoints points = norm_with(layout.normalized).value();
    hook_scale_ = add_point(*this, points.scale, context);
    hook_normalized_ = add_point(*this, points.normalized, context);
  }
  const std::int64_t size =
      std::accumulate(weight_shape_.begin(), weight_shape_.end(), std::int64_t{1}, std::multiplies<>());
  const at::TensorOptions options =
      context.options.dtype(context.config.dtype_of(context.config.least_dtypes.norms));
  if (layout.weighted) w_ = register_parameter("w", at::empty({size}, options), /*requires_grad=*/false);
  if (layout.bias) b_ = register_parameter("b", at::empty({size}, options), /*requires_grad=*/false);
}

bool Norm::narrows(const at::Tensor& x) const {
  return x.scalar_type() != division_.dtype || (w_.defined() && w_.scalar_type() != division_.dtype);
}

bool Norm::rounds_between(const at::Tensor& x) const {
  return division_.kind == NormKind::rms_norm && w_.defined() && x.device().is_cpu() &&
         at::isReducedFloatingType(x.scalar_type());
}

at::Tensor Norm::weight(const Run& run) const {
  if (!offset_) return w_.view(weight_shape_);
  return (run.offset_weights.empty() ? w_ + 1.0 : run.offset_weights[offset_number_]).view(weight_shape_);
}

void Norm::add_offset_weight(std::vector<at::Tensor>& weights) {
  if (!offset_ || !w_.defined()) return;
  offset_number_ = weights.size();
  weights.push_back(w_);
}

at::Tensor Norm::weighted(const at::Tensor& normalized, const Run& run) const {
  if (!w_.defined()) return normalized;
  if (w_.scalar_type() != normalized.scalar_type()) {
    // In the wider of the two dtypes, in which 1 + w is not rounded either.
    const at::ScalarType wide = c10::promoteTypes(w_.scalar_type(), normalized.scalar_type());
    const at::Tensor stored = w_.to(wide).view(weight_shape_);
    const at::Tensor product = normalized * (offset_ ? stored + 1.0 : stored);
    return (b_.defined() ? product + b_.view(weight_shape_) : product).to(division_.dtype);
  }
  const at::Tensor w = weight(run);
  return b_.defined() ? at::addcmul(b_.view(weight_shape_), normalized, w) : normalized * w;
}

std::optional<Norm::Rows> Norm::rows_of(const at::Tensor& x, const Run& run) const {
  if (run.workspace == nullptr || narrows(x)) return std::nullopt;
  const std::size_t normed_axes = division_.shape.size();
  const auto along = [&](const at::Tensor& numbers) {
    return numbers.defined() ? as_rows(numbers.view(weight_shape_), normed_axes) : at::Tensor();
  };
  Rows rows{as_rows(without_history(x), normed_axes),
            {.centred = division_.kind == NormKind::layer_norm,
             .eps = division_.eps,
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
  if (narrows(x) || rounds_between(x)) {
    const at::Tensor wide = x.to(c10::promoteTypes(x.scalar_type(), at::kFloat));
    return weighted(by_operator(wide, {}), run).to(division_.dtype);
  }
  // The kernels multiply only by a weight of the normed axes.
  if (weight_shape_ != division_.shape) return weighted(by_operator(x, {}), run);
  return by_operator(x, of_operator(run));
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

Norm::Affine Norm::of_operator(const Run& run) const {
  Affine affine;
  if (w_.defined()) affine.weight = weight(run);
  if (b_.defined()) affine.bias = b_.view(division_.shape);
  return affine;
}

at::Tensor Norm::by_operator(const at::Tensor& x, const Affine& with) const {
  if (division_.kind == NormKind::rms_norm)
    return at::rms_norm(x, division_.shape, with.weight, division_.eps);
  return std::get<0>(at::native_layer_norm(x, division_.shape, with.weight, with.bias, division_.eps));
}

Norm::NormedByKernel Norm::by_kernel(const at::Tensor& x, const Run& run) const {
  const auto [weight, bias] = of_operator(run);
  at::Tensor normed, mean, reciprocal;
  if (division_.kind == NormKind::rms_norm) {
    std::tie(normed, reciprocal) = at::_fused_rms_norm(x, division_.shape, weight, division_.eps);
  } else {
    std::tie(normed, mean, reciprocal) =
        at::native_layer_norm(x, division_.shape, weight, bias, division_.eps);
  }
  return {normed, reciprocal};
}

at::Tensor Norm::forward(const at::Tensor& x, Run& run) const { return forward_with_edits(x, run).normed; }

at::Tensor Norm::forward_unchanged(const at::Tensor& x, Run& run) const {
  at::Tensor normed, scale;
  const bool scale_watched = hook_scale_->watched(run.watch);
  const auto rows = rows_of(x, run);
  if (rows) {
    const at::Tensor weighted = run.workspace->empty(rows->x.sizes(), x.options());
    if (scale_watched) scale = at::empty(with_last_size(rows->x, 1), x.options().dtype(at::kFloat));
    norm_rows_into({.weighted = weighted, .scale = scale}, rows->x, rows->how);
    normed = weighted.view(x.sizes());
    if (scale.defined() && division_.shape.size() > 1) scale = scale.unsqueeze(-1);
  } else if (scale_watched && !x.device().is_cpu() && weight_shape_ == division_.shape && !narrows(x)) {
    const NormedByKernel made = by_kernel(x, run);
    normed = made.normed;
    scale = made.reciprocal_scale.reciprocal();
  } else {
    normed = without_points(x, run);
    if (scale_watched) scale = division_.scale(division_.dividend(x));
  }
  hook_scale_->forward(scale, run.watch);
  const auto recipe = [&](const ActivationName& name) -> Recipe {
    return {name,
            x.sizes().vec(),
            x.options().dtype(division_.dtype),
            {{"the norm's inputs", x, axes_to_cut(name.site, division_.shape.size())}},
            [division = division_, workspace = *run.workspace](const std::vector<at::Tensor>& of) {
              return division.normalized(of[0], {&workspace});
            }};
  };
  // Without a weight, the kernel's output is what the point shows.
  const bool shown = rows && !w_.defined();
  if (!hook_normalized_->forward_late(recipe, shown ? ValueIs::at_hand : ValueIs::skipped, run.watch))
    hook_normalized_->forward(shown ? normed : division_.normalized(x, run), run.watch);
  return normed;
}

Norm::Output Norm::forward_with_edits(const at::Tensor& x, Run& run) const {
  if (!watched(run)) return {without_points(x, run), false};
  const bool changes =
      run.watch.may_change(hook_scale_->number()) || run.watch.may_change(hook_normalized_->number());
  const bool all_now =
      hook_normalized_->watched(run.watch) && !run.watch.may_keep_late(hook_normalized_->number());
  // Gradients pass through the two points, or through our kernel after them.
  const bool passes_points = run.watch.wants_gradient(hook_scale_->number()) ||
                             run.watch.wants_gradient(hook_normalized_->number()) || (changes && records(x));
  if (run.workspace != nullptr && !changes && !all_now && !passes_points && !records(x))
    return {forward_unchanged(x, run), false};

  at::Tensor scale, normalized, dividend;
  NormedRows made;
  const auto rows = passes_points ? std::nullopt : rows_of(x, run);
  if (rows) {
    made.normalized = run.workspace->empty(rows->x.sizes(), x.options());
    made.scale = at::empty(with_last_size(rows->x, 1), x.options().dtype(at::kFloat));
    if (w_.defined() && !changes) made.weighted = run.workspace->empty(rows->x.sizes(), x.options());
    norm_rows_into(made, rows->x, rows->how);
    normalized = made.normalized.view(x.sizes());
    scale = division_.shape.size() > 1 ? made.scale.unsqueeze(-1) : made.scale;
  } else {
    dividend = division_.dividend(x);
    scale = division_.scale(dividend);
  }
  const at::Tensor seen_scale = hook_scale_->forward(scale, run.watch);
  const bool scale_edited = !seen_scale.is_same(scale) && run.watch.may_change(hook_scale_->number());
  if (!normalized.defined() || scale_edited) {
    if (!dividend.defined()) dividend = division_.dividend(x);
    normalized = (dividend / seen_scale).to(division_.dtype);
  }
  const at::Tensor seen = hook_normalized_->forward(normalized, run.watch);
  const bool edited =
      scale_edited || (!seen.is_same(normalized) && run.watch.may_change(hook_normalized_->number()));
  if (made.weighted.defined()) return {recorded_norm(made.weighted.view(x.sizes()), x, *rows, run), edited};
  if (rows && !w_.defined()) return {recorded_norm(seen, x, *rows, run), edited};
  return {weighted(seen, run), edited};
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
