#include "models/mixers/delta_rule.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

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

}  // namespace hooked
