#include "models/mlp/mlp.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/empty.h>

#include "models/ops/activations.h"
#include "models/ops/ops.h"
#include "models/storage/workspace.h"

namespace hooked {

MlpPlace dense_mlp(const ModelConfig& config, std::int64_t layer) {
  return {.width = config.mlp_width(layer),
          .bias = config.mlp_bias,
          .pre = Site::pre,
          .pre_linear = Site::pre_linear,
          .post = Site::post,
          .in = Site::mlp_input};
}

Neurons neurons_of(const ModelConfig& config) {
  return {.activation = config.activation,
          .gated = config.mlp == MlpKind::gated,
          .gate_limit = config.gate_limit,
          .up_offset = config.up_offset};
}

Mlp::Mlp(const GraphContext& context, const MlpPlace& place)
    : config_(context.config), place_(place), neurons_(neurons_of(context.config)) {
  const ModelConfig& c = config_;
  const bool is_gated = c.mlp == MlpKind::gated;
  const std::int64_t d = place.width;
  const std::int64_t width = is_gated ? 2 * d : d;
  const auto parameter = [&](const char* name, at::IntArrayRef sizes) {
    return add_parameter(*this, name, sizes, context);
  };
  W_in_ = add_matrix(*this, is_gated ? "W_gate_in" : "W_in", width, c.d_model, {.out = d, .in = c.d_model},
                     context);
  GraphContext of_out = context;
  of_out.options = context.options.dtype(c.dtype_of(c.least_dtypes.mlp_out));
  W_out_ = add_matrix(*this, "W_out", c.d_model, d, {.out = c.d_model, .in = d}, of_out);
  if (place.bias) {
    if (c.gated_bias_after_product) {
      weights_.b_product = parameter("b_in", {d});
    } else {
      b_in_ = parameter(is_gated ? "b_gate_in" : "b_in", {width});
    }
    b_out_ = add_parameter(*this, "b_out", {c.d_model}, of_out);
  }
  if (c.activation.kind() == Activation::xielu) {
    const auto numbers = register_module("xielu", std::make_shared<torch::nn::Module>());
    const auto number = [&](const char* name) {
      return numbers->register_parameter(name, at::empty({1}, context.options), /*requires_grad=*/false);
    };
    weights_.xielu = {number("alpha_p"), number("alpha_n"), number("beta"), number("eps")};
  }
  if (c.mlp_norm) {
    const bool has_weights = !c.norm_folded;
    ln_ = add_norm(*this, "ln",
                   {.kind = NormKind::layer_norm,
                    .normalized = Site::mlp_ln_normalized,
                    .shape = {d},
                    .weighted = has_weights,
                    .bias = has_weights && c.norm_bias},
                   context);
  }
  if (place.in) hook_in_ = add_point(*this, *place.in, context);
  hook_pre_ = add_point(*this, place.pre, context);
  hook_pre_linear_ = add_point(*this, place.pre_linear, context);
  hook_mid_ = add_point(*this, Site::mid, context);
  hook_post_ = add_point(*this, place.post, context);
}

bool Mlp::watched(const Run& run) const {
  return (hook_in_ && hook_in_->watched(run.watch)) || hook_pre_->watched(run.watch) ||
         hook_pre_linear_->watched(run.watch) || hook_post_->watched(run.watch);
}

at::Tensor Mlp::forward(const at::Tensor& x, Run& run) const {
  const at::Tensor post = neurons(hook_in_ ? hook_in_->forward(x, run.watch) : x, run);
  return ops::linear(post.to(W_out_.dtype()), W_out_, b_out_, run);
}

at::Tensor Mlp::replacement(const Point& point, const at::Tensor& x, const Run& run) const {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = place_.width;
  return run.watch.replacement(point->number(), sizes, x.options());
}

at::Tensor Mlp::neurons(const at::Tensor& x, Run& run) const {
  if (!run.watch.plan().watches_between(hook_pre_->number(), hook_post_->number()) &&
      !hook_pre_->watched(run.watch)) {
    at::Tensor post = replacement(hook_post_, x, run);
    if (post.defined()) return hook_post_->forward(std::move(post), run.watch);
  }
  at::Tensor pre, up;
  if (neurons_.gated) {
    const at::Tensor both = ops::linear(x, W_in_, b_in_, run);
    const auto parts = ops::split(both, {place_.width, place_.width}, -1, run);
    pre = parts[0];
    up = parts[1];
  } else {
    pre = replacement(hook_pre_, x, run);
    if (!pre.defined()) pre = ops::linear(x, W_in_, b_in_, run);
  }
  pre = hook_pre_->forward(pre, run.watch);
  if (neurons_.gated) up = hook_pre_linear_->forward(up, run.watch);
  const at::Tensor post = neurons_(pre, up, weights_, run);
  if (ln_) return hook_post_->forward(ln_->forward(hook_mid_->forward(post, run.watch), run), run.watch);
  const bool late =
      run.workspace != nullptr &&
      hook_post_->forward_late([&](const ActivationName& name) { return recipe(name, pre, up, run); },
                               ValueIs::at_hand, run.watch);
  return late ? post : hook_post_->forward(post, run.watch);
}

Recipe Mlp::recipe(const ActivationName& name, const at::Tensor& pre, const at::Tensor& up,
                   const Run& run) const {
  const std::vector<Axis> axes = axes_to_cut(name.site, 1);
  const ops::Xielu& xielu = weights_.xielu;
  return {name,
          pre.sizes().vec(),
          pre.options(),
          {{"the values before the activation function", pre, axes},
           {"the values of the up branch", up, axes},
           {"the weights of xIELU", xielu.alpha_p, {Axis::one}},
           {"the weights of xIELU", xielu.alpha_n, {Axis::one}},
           {"the weights of xIELU", xielu.beta, {Axis::one}},
           {"the weights of xIELU", xielu.eps, {Axis::one}},
           {"the weights b_in", weights_.b_product, {Axis::one}}},
          [neurons = neurons_, workspace = *run.workspace](const std::vector<at::Tensor>& of) {
            return neurons(of[0], of[1], {.xielu = {of[2], of[3], of[4], of[5]}, .b_product = of[6]},
                           {&workspace});
          }};
}

at::Tensor Neurons::operator()(at::Tensor pre, at::Tensor up, const Weights& weights, Memory memory) const {
  if (gated && gate_limit > 0) {
    pre = at::clamp_max(pre, gate_limit);
    up = at::clamp(up, -gate_limit, gate_limit);
  }
  const at::Tensor active = activation.kind() == Activation::xielu ? ops::xielu(pre, weights.xielu)
                                                                   : ops::activate(activation, pre, memory);
  if (!gated) return active;
  // active (up + 1); on devices other than the CPU in one launch.
  const bool at_once = up_offset && !up.device().is_cpu();
  const at::Tensor product =
      at_once ? at::addcmul(active, active, up) : ops::multiply(active, up_offset ? up + 1.0 : up, memory);
  return weights.b_product.defined() ? product + weights.b_product : product;
}

WeightSlots Mlp::slots(const std::string& path) const {
  const std::int64_t d = place_.width;
  WeightSlots slots;
  const auto matrix = [&](const char* letter, const Matrix& weight) {
    const std::string name = path + ".W_" + letter;
    add_slot(slots, place_.linear_names ? name + ".weight" : name,
             place_.linear_names ? weight.as_out_in() : weight.as_in_out());
  };
  const auto bias = [&](const std::string& letter, const at::Tensor& values) {
    add_slot(slots, path + (place_.linear_names ? ".W_" + letter + ".bias" : ".b_" + letter), values);
  };
  if (config_.mlp == MlpKind::gated) {
    matrix("gate", W_in_.narrow(0, d));
    matrix("in", W_in_.narrow(d, d));
    if (b_in_.defined()) {
      bias("gate", b_in_.narrow(0, 0, d));
      bias("in", b_in_.narrow(0, d, d));
    }
  } else {
    matrix("in", W_in_);
    bias("in", b_in_);
  }
  bias("in", weights_.b_product);
  matrix("out", W_out_);
  bias("out", b_out_);
  add_slot(slots, path + ".xielu.alpha_p", weights_.xielu.alpha_p);
  add_slot(slots, path + ".xielu.alpha_n", weights_.xielu.alpha_n);
  add_slot(slots, path + ".xielu.beta", weights_.xielu.beta);
  add_slot(slots, path + ".xielu.eps", weights_.xielu.eps);
  add_slots(slots, ln_, path + ".ln");
  return slots;
}

}  // namespace hooked
