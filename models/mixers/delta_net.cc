#include "models/mixers/delta_net.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "models/mixers/short_convolution.h"
#include "models/ops/activations.h"
#include "models/ops/ops.h"

namespace hooked {
namespace {

constexpr std::int64_t kChunk = 64;
constexpr double kLengthEps = 1e-6;  // added to the square of a length

at::Tensor of_length_one(const at::Tensor& x) {
  return x * at::rsqrt(x.square().sum(-1, /*keepdim=*/true) + kLengthEps);
}

// Keys or queries normalised to length one, [batch, pos, head, d_key] in `wide`: one for each of `heads`.
at::Tensor for_each_head(const at::Tensor& x, std::int64_t heads, at::ScalarType wide) {
  const std::int64_t shared = heads / x.size(2);
  return of_length_one((shared == 1 ? x : x.repeat_interleave(shared, 2)).to(wide));
}

at::Tensor queries_for(const at::Tensor& q, std::int64_t heads, at::ScalarType wide) {
  return for_each_head(q, heads, wide) / std::sqrt(static_cast<double>(q.size(-1)));
}

// [batch, head, pos, ..] in float32 or better, a key head for each head.
struct Prepared {
  at::Tensor q, k, v, beta, decay;
};

Prepared prepared(const DeltaInputs& of) {
  const at::ScalarType wide = at::toOpMathType(of.v.scalar_type());
  const std::int64_t heads = of.v.size(2);
  const auto by_head = [&](const at::Tensor& x) { return x.transpose(1, 2).to(wide); };
  return {by_head(queries_for(of.q, heads, wide)), by_head(for_each_head(of.k, heads, wide)), by_head(of.v),
          by_head(of.beta), by_head(of.decay)};
}

at::Tensor state_before(const Prepared& p, const at::Tensor& state) {
  if (state.defined()) return state.to(p.v.scalar_type());
  return at::zeros({p.v.size(0), p.v.size(1), p.k.size(3), p.v.size(3)}, p.v.options());
}

// The state after a token, from that before it.
at::Tensor state_behind(const Prepared& p, std::int64_t token, at::Tensor state) {
  const auto now = [token](const at::Tensor& x) { return x.select(2, token); };
  state = state * now(p.decay).exp().unsqueeze(-1).unsqueeze(-1);
  const at::Tensor k = now(p.k).unsqueeze(-1);  // [batch, head, d_key, 1]
  const at::Tensor held = (state * k).sum(-2);
  const at::Tensor change = (now(p.v) - held) * now(p.beta).unsqueeze(-1);
  return state + k * change.unsqueeze(-2);
}

DeltaOutputs of_one_token(const Prepared& p, const at::Tensor& before) {
  const at::Tensor state = state_behind(p, 0, before);
  const at::Tensor out = (state * p.q.select(2, 0).unsqueeze(-1)).sum(-2);
  return {out.unsqueeze(1), state};
}

// Note [Chunks of the delta rule]
// Within a chunk let G be the sum of decays up to a token, and D[i, j] = exp(G[i] - G[j]) for j <= i. The
// tokens add k^T U to the state with (1 + tril(beta k k^T * D, -1)) U = beta v - beta k exp(G) S, where S is
// the state before the chunk: one triangular system for all tokens. Then out = q exp(G) S + (q k^T * D) U,
// and the state after the chunk is exp(G[last]) S + (k exp(G[last] - G))^T U.
DeltaOutputs of_chunks(const Prepared& p, at::Tensor state) {
  const std::int64_t tokens = p.k.size(2), chunk = std::min(kChunk, tokens);
  const std::int64_t missing = (chunk - tokens % chunk) % chunk;
  const auto in_chunks = [&](const at::Tensor& x) {  // [batch, head, chunk, token, ..]
    std::vector<std::int64_t> padding(static_cast<std::size_t>(2 * (x.dim() - 2)), 0);
    padding.back() = missing;
    return at::constant_pad_nd(x, padding).unflatten(2, {-1, chunk});
  };
  const at::Tensor q = in_chunks(p.q), k = in_chunks(p.k), v = in_chunks(p.v);
  const at::Tensor beta = in_chunks(p.beta).unsqueeze(-1);
  const at::Tensor sums = in_chunks(p.decay).cumsum(3);  // G
  const at::Tensor later = at::ones({chunk, chunk}, sums.options().dtype(at::kBool)).triu(1);
  const at::Tensor decays = (sums.unsqueeze(-1) - sums.unsqueeze(-2))
                                .masked_fill(later, -std::numeric_limits<double>::infinity())
                                .exp();
  const at::Tensor grown = sums.exp().unsqueeze(-1);
  const at::Tensor k_beta = k * beta, keys = k.transpose(-1, -2);
  const at::Tensor system = at::matmul(k_beta, keys) * decays;
  const auto solved = [&](const at::Tensor& right) {
    return at::linalg_solve_triangular(system, right, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
  };
  const at::Tensor values = solved(v * beta), held = solved(k_beta * grown);
  const at::Tensor inside = at::matmul(q, keys) * decays, q_grown = q * grown;
  const at::Tensor last = sums.narrow(3, chunk - 1, 1);
  const at::Tensor k_left = (k * (last - sums).exp().unsqueeze(-1)).transpose(-1, -2);
  const at::Tensor left = last.exp().unsqueeze(-1);  // [batch, head, chunk, 1, 1]
  std::vector<at::Tensor> outs;
  for (std::int64_t c = 0; c < q.size(2); ++c) {
    const auto here = [c](const at::Tensor& x) { return x.select(2, c); };
    const at::Tensor added = here(values) - at::matmul(here(held), state);
    outs.push_back(at::matmul(here(q_grown), state) + at::matmul(here(inside), added));
    state = state * here(left) + at::matmul(here(k_left), added);
  }
  const at::Tensor out = at::cat(outs, 2).narrow(2, 0, tokens);
  return {out.transpose(1, 2), state};
}

}  // namespace

DeltaOutputs gated_delta_rule(const DeltaInputs& of, const at::Tensor& state) {
  const Prepared p = prepared(of);
  const at::Tensor before = state_before(p, state);
  return p.v.size(2) == 1 ? of_one_token(p, before) : of_chunks(p, before);
}

at::Tensor delta_states(const DeltaInputs& of, const at::Tensor& state) {
  const Prepared p = prepared(of);
  std::vector<at::Tensor> states;
  for (std::int64_t token = 0; token < p.v.size(2); ++token)
    states.push_back(state_behind(p, token, token == 0 ? state_before(p, state) : states.back()));
  return at::stack(states, 1);
}

at::Tensor read_of_states(const at::Tensor& q, const at::Tensor& states) {
  const at::Tensor queries = queries_for(q, states.size(2), states.scalar_type());
  return (states * queries.unsqueeze(-1)).sum(-2);
}

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
  norm_ = add_norm(*this, "norm",
                   {.kind = NormKind::rms_norm,
                    .normalized = Site::linear_norm_normalized,
                    .shape = {s.d_value},
                    .eps = s.norm_eps},
                   context);
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
