#include "models/mlp.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "models/ops.h"

namespace hooked {

Mlp::Mlp(const GraphContext& context) : config_(context.config) {
  const ModelConfig& c = config_;
  const bool is_gated = c.mlp == MlpKind::gated;
  const std::int64_t width = is_gated ? 2 * c.d_mlp : c.d_mlp;
  const auto parameter = [&](const char* name, at::IntArrayRef sizes) {
    return register_parameter(name, at::empty(sizes, context.options), /*requires_grad=*/false);
  };
  W_in_ = add_matrix(*this, is_gated ? "W_gate_in" : "W_in", width, c.d_model, context);
  W_out_ = add_matrix(*this, "W_out", c.d_model, c.d_mlp, context);
  if (c.mlp_bias) {
    if (c.gated_bias_after_product) {
      b_product_ = parameter("b_in", {c.d_mlp});
    } else {
      b_in_ = parameter(is_gated ? "b_gate_in" : "b_in", {width});
    }
    b_out_ = parameter("b_out", {c.d_model});
  }
  if (c.activation == Activation::xielu) {
    const auto numbers = register_module("xielu", std::make_shared<torch::nn::Module>());
    const auto number = [&](const char* name) {
      return numbers->register_parameter(name, at::empty({1}, context.options), /*requires_grad=*/false);
    };
    xielu_ = {number("alpha_p"), number("alpha_n"), number("beta"), number("eps")};
  }
  if (c.mlp_norm) {
    const bool has_weights = !c.norm_folded;
    ln_ = register_module("ln", std::make_shared<Norm>(Norm::Layout{NormKind::layer_norm,
                                                                    Site::mlp_ln_scale,
                                                                    Site::mlp_ln_normalized,
                                                                    {c.d_mlp},
                                                                    has_weights,
                                                                    has_weights && c.norm_bias},
                                                       context));
  }
  hook_pre_ = add_point(*this, Site::mlp_pre, context);
  hook_pre_linear_ = add_point(*this, Site::mlp_pre_linear, context);
  hook_mid_ = add_point(*this, Site::mlp_mid, context);
  hook_post_ = add_point(*this, Site::mlp_post, context);
}

at::Tensor Mlp::forward(const at::Tensor& x, Run& run) const {
  const at::Tensor post =
      hook_post_->forward(config_.mlp == MlpKind::gated ? gated(x, run) : plain(x, run), run);
  return ops::linear(post, W_out_, b_out_, run);
}

at::Tensor Mlp::plain(const at::Tensor& x, Run& run) const {
  const at::Tensor pre = hook_pre_->forward(ops::linear(x, W_in_, b_in_, run), run);
  const at::Tensor mid = activate(pre, run);
  return ln_ ? ln_->forward(hook_mid_->forward(mid, run), run) : mid;
}

at::Tensor Mlp::activate(const at::Tensor& pre, const Run& run) const {
  return config_.activation == Activation::xielu ? ops::xielu(pre, xielu_)
                                                 : ops::activate(config_.activation, pre, run);
}

at::Tensor Mlp::gated(const at::Tensor& x, Run& run) const {
  const at::Tensor both = ops::linear(x, W_in_, b_in_, run);
  const at::Tensor gate = hook_pre_->forward(both.narrow(-1, 0, config_.d_mlp), run);
  const at::Tensor up = hook_pre_linear_->forward(both.narrow(-1, config_.d_mlp, config_.d_mlp), run);
  const at::Tensor product = ops::multiply(activate(gate, run), up, run);
  return b_product_.defined() ? product + b_product_ : product;
}

WeightSlots Mlp::slots(const std::string& path) const {
  const std::int64_t d = config_.d_mlp;
  WeightSlots slots;
  if (config_.mlp == MlpKind::gated) {
    slots.push_back({path + ".W_gate", W_in_.narrow(0, 0, d).t()});
    slots.push_back({path + ".W_in", W_in_.narrow(0, d, d).t()});
    if (b_in_.defined()) {
      // Files of TransformerLens's gated models have no gate bias.
      slots.push_back({path + ".b_gate", b_in_.narrow(0, 0, d), /*optional=*/true});
      slots.push_back({path + ".b_in", b_in_.narrow(0, d, d)});
    }
  } else {
    slots.push_back({path + ".W_in", W_in_.t()});
    if (b_in_.defined()) slots.push_back({path + ".b_in", b_in_});
  }
  if (b_product_.defined()) slots.push_back({path + ".b_in", b_product_});
  slots.push_back({path + ".W_out", W_out_.t()});
  if (b_out_.defined()) slots.push_back({path + ".b_out", b_out_});
  if (config_.activation == Activation::xielu) {
    slots.push_back({path + ".xielu.alpha_p", xielu_.alpha_p});
    slots.push_back({path + ".xielu.alpha_n", xielu_.alpha_n});
    slots.push_back({path + ".xielu.beta", xielu_.beta});
    slots.push_back({path + ".xielu.eps", xielu_.eps});
  }
  if (ln_) {
    for (WeightSlot& slot : ln_->slots(path + ".ln")) slots.push_back(std::move(slot));
  }
  return slots;
}

}  // namespace hooked
