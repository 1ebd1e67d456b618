#include "models/mixers/delta_net.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/zeros.h>

#include "models/mixers/causal_convolution.h"
#include "models/ops/activations.h"
#include "models/ops/ops.h"

namespace hooked {

DeltaNetMixer::DeltaNetMixer(const GraphContext& context)
    : config_(context.config), sizes_(*config_.delta_net), layer_(context.layer) {
  const DeltaNet& s = sizes_;
  const std::int64_t m = config_.d_model;
  const auto heads = [&](const char* name, std::int64_t count, std::int64_t width) {
    return add_matrix(*this, name, count * width, m, {.out = width, .in = m}, context);
  };
  W_Q_ = heads("W_Q", s.n_key_heads, s.d_key);
  W_K_ = heads("W_K", s.n_key_heads, s.d_key);
  W_V_ = heads("W_V", s.n_heads, s.d_value);
  W_gate_ = heads("W_gate", s.n_heads, s.d_value);
  W_beta_ = add_matrix(*this, "W_beta", s.n_heads, m, {.out = s.n_heads, .in = m}, context);
  W_decay_ = add_matrix(*this, "W_decay", s.n_heads, m, {.out = s.n_heads, .in = m}, context);
  W_O_ = add_matrix(*this, "W_O", m, s.n_heads * s.d_value, {.out = m, .in = s.d_value}, context);
  filter_ = add_parameter(*this, "filter", {s.kernel, s.d_qkv()}, context);
  A_log_ = add_parameter(*this, "A_log", {s.n_heads}, context);
  dt_bias_ = add_parameter(*this, "dt_bias", {s.n_heads}, context);
  norm_ = register_module(
      "norm",
      std::make_shared<Norm>(Norm::Layout{.kind = NormKind::rms_norm,
                                          .points = {Site::linear_norm_scale, Site::linear_norm_normalized},
                                          .shape = {s.d_value},
                                          .weighted = true,
                                          .bias = false,
                                          .eps = s.norm_eps},
                             context));
  hook_qkv_ = add_point(*this, Site::linear_qkv, context);
  hook_q_ = add_point(*this, Site::linear_q, context);
  hook_k_ = add_point(*this, Site::linear_k, context);
  hook_v_ = add_point(*this, Site::linear_v, context);
  hook_beta_ = add_point(*this, Site::linear_beta, context);
  hook_decay_ = add_point(*this, Site::linear_decay, context);
  hook_state_ = add_point(*this, Site::linear_state, context);
  hook_gate_ = add_point(*this, Site::linear_gate, context);
  hook_out_ = add_point(*this, Site::linear_out, context);
  hook_gated_ = add_point(*this, Site::linear_gated, context);
}

at::Tensor DeltaNetMixer::forward(const AttentionInput& input, const StackInputs& stack, Run& run) const {
  const at::Tensor& x = input.shared;
  const auto read = [&](const Matrix& weight) { return ops::linear(x, weight, {}, run); };
  const at::Tensor qkv = hook_qkv_->forward(at::cat({read(W_Q_), read(W_K_), read(W_V_)}, -1), run.watch);
  const RecurrentState before = stack.sequence.state(layer_);
  const auto [values, last] = convolved(qkv, before.inputs, stack.run_tokens);
  const DeltaInputs inputs = this->inputs(x, ops::activate(Activation::silu, values, run), stack, run);
  const DeltaOutputs made = recurred(inputs, before.state, run);
  stack.sequence.keep_state(layer_, {last, made.state});
  const at::Tensor gate =
      hook_gate_->forward(read(W_gate_).unflatten(-1, {sizes_.n_heads, sizes_.d_value}), run.watch);
  const at::Tensor out = hook_out_->forward(made.out.to(x.scalar_type()).contiguous(), run.watch);
  const at::Tensor gated = hook_gated_->forward(
      ops::multiply(norm_->forward(out, run), ops::activate(Activation::silu, gate, run), run), run.watch);
  return ops::linear(stack.asked_of(gated).flatten(2), W_O_, {}, run);
}

DeltaNetMixer::Convolved DeltaNetMixer::convolved(const at::Tensor& qkv, const at::Tensor& inputs,
                                                  const RunTokens& tokens) const {
  const std::int64_t rows = qkv.size(0), taps = sizes_.kernel;
  const at::Tensor before = inputs.defined() ? inputs.expand({rows, -1, -1})
                                             : at::zeros({rows, taps - 1, qkv.size(2)}, qkv.options());
  const at::Tensor all = at::cat({before, qkv}, 1);
  const std::vector<KeysAndValues> columns{{all.unsqueeze(1), {}, KeyForm::convolved}};
  const at::Tensor values = causal_convolution(columns, qkv.size(1), tokens.earlier, filter_, {});
  if (!tokens.last.defined()) return {values, all.narrow(1, qkv.size(1), taps - 1)};
  return {values, all.gather(1, tokens.last.unsqueeze(-1).expand({-1, -1, all.size(2)}))};
}

DeltaOutputs DeltaNetMixer::recurred(const DeltaInputs& inputs, const at::Tensor& before, Run& run) const {
  if (!hook_state_->watched(run.watch)) return gated_delta_rule(inputs, before);
  const at::Tensor states = hook_state_->forward(delta_states(inputs, before), run.watch);
  return {read_of_states(inputs.q, states), states.select(1, -1)};
}

DeltaInputs DeltaNetMixer::inputs(const at::Tensor& x, const at::Tensor& qkv, const StackInputs& stack,
                                  Run& run) const {
  const DeltaNet& s = sizes_;
  const std::vector<at::Tensor> parts =
      ops::split(qkv, {s.n_key_heads * s.d_key, s.n_key_heads * s.d_key, s.n_heads * s.d_value}, -1, run);
  DeltaInputs made;
  made.q = hook_q_->forward(parts[0].unflatten(-1, {s.n_key_heads, s.d_key}), run.watch);
  made.k = hook_k_->forward(parts[1].unflatten(-1, {s.n_key_heads, s.d_key}), run.watch);
  made.v = hook_v_->forward(parts[2].unflatten(-1, {s.n_heads, s.d_value}), run.watch);
  const at::Tensor share = at::sigmoid(ops::linear(x, W_beta_, {}, run));
  made.beta = hook_beta_->forward(s.doubled_beta ? share * 2.0 : share, run.watch);
  const at::ScalarType wide = at::toOpMathType(x.scalar_type());
  const at::Tensor steps = at::softplus(ops::linear(x, W_decay_, {}, run).to(wide) + dt_bias_.to(wide));
  made.decay = hook_decay_->forward(-A_log_.to(wide).exp() * steps, run.watch);
  if (const at::Tensor& real = stack.run_tokens.real; real.defined()) {
    made.beta = made.beta.masked_fill(real.logical_not().unsqueeze(-1), 0);
    made.decay = made.decay.masked_fill(real.logical_not().unsqueeze(-1), 0);
  }
  return made;
}

KeyForm DeltaNetMixer::key_form(const WatchPlan&) const { return KeyForm::state; }

KeysAndValues DeltaNetMixer::in_form(const KeysAndValues& columns, KeyForm, Memory) const { return columns; }

WeightSlots DeltaNetMixer::slots(const std::string& path) const {
  const DeltaNet& s = sizes_;
  WeightSlots slots{{path + ".W_Q", W_Q_.by_output_heads(s.n_key_heads)},
                    {path + ".W_K", W_K_.by_output_heads(s.n_key_heads)},
                    {path + ".W_V", W_V_.by_output_heads(s.n_heads)},
                    {path + ".W_gate", W_gate_.by_output_heads(s.n_heads)},
                    {path + ".W_beta", W_beta_.as_in_out()},
                    {path + ".W_decay", W_decay_.as_in_out()},
                    {path + ".filter.weight", filter_.t()},
                    {path + ".A_log", A_log_},
                    {path + ".dt_bias", dt_bias_},
                    {path + ".W_O", W_O_.by_input_heads(s.n_heads)}};
  add_slots(slots, norm_, path + ".norm");
  return slots;
}

}  // namespace hooked
