#include <algorithm>
#include <cmath>

#include "plain_layers.h"

namespace hooked::reference {
namespace {

Array times(const Array& a, const Array& b) {
  Array out = a;
  for (std::size_t i = 0; i < out.values.size(); ++i) out.values[i] *= b.values[i];
  return out;
}

/// Each dimension of `x` [batch, pos, width] by a filter of its own [width, tap], whose last tap is the
/// token's own, over the real tokens of a row.
Array convolved(const Array& x, const Array& filter, const Array& bias, const Sequence& sequence) {
  Array out(x.shape);
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    std::vector<std::int64_t> tokens;  // columns of those so far
    for (std::int64_t p = 0; p < x.size(1); ++p) {
      if (sequence.real[b][p]) tokens.push_back(p);
      const auto seen = static_cast<std::int64_t>(tokens.size());
      for (std::int64_t m = 0; m < x.size(2); ++m) {
        double total = bias.shape.empty() ? 0.0 : bias(m);
        for (std::int64_t back = 0; back < filter.size(1) && back < seen; ++back) {
          total += filter(m, filter.size(1) - 1 - back) * x(b, tokens[seen - 1 - back], m);
        }
        out(b, p, m) = total;
      }
    }
  }
  return out;
}

}  // namespace

Array short_convolution(const ModelConfig&, const Weights& weights, std::int64_t layer, const Array& x,
                        const Sequence& sequence, Points& points) {
  const std::string name = sequence.stack + "." + std::to_string(layer) + ".conv.";
  const auto part = [&](const std::string& which, const std::string& point) {
    return points.keep(name + point, linear(x, weights.at(name + "W_" + which),
                                            weight_or_empty(weights, name + "b_" + which)));
  };
  const Array before = part("B", "hook_b"), behind = part("C", "hook_c"), value = part("X", "hook_x");
  const Array read = points.keep(name + "hook_bx", times(before, value));
  const Array filtered =
      points.keep(name + "hook_conv", convolved(read, weights.at(name + "filter.weight"),
                                                weight_or_empty(weights, name + "filter.bias"), sequence));
  const Array gated = points.keep(name + "hook_gated", times(behind, filtered));
  return linear(gated, weights.at(name + "W_out"), weight_or_empty(weights, name + "b_out"));
}

Array delta_net(const ModelConfig& config, const Weights& weights, std::int64_t layer, const Array& x,
                const Sequence& sequence, Points& points) {
  const DeltaNet& net = *config.delta_net;
  const std::string name = sequence.stack + "." + std::to_string(layer) + ".linear_attn.";
  const std::int64_t batch = x.size(0), length = x.size(1), group = net.n_heads / net.n_key_heads;
  const auto silu = [](double y) { return y / (1.0 + std::exp(-y)); };
  const auto heads = [&](const std::string& which) {
    const Array& weight = weights.at(name + which);
    Array out({batch, length, weight.size(0), weight.size(2)});
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t p = 0; p < length; ++p) {
        for (std::int64_t h = 0; h < out.size(2); ++h) {
          for (std::int64_t d = 0; d < out.size(3); ++d) {
            for (std::int64_t m = 0; m < x.size(2); ++m) out(b, p, h, d) += x(b, p, m) * weight(h, m, d);
          }
        }
      }
    }
    return out;
  };
  const Array parts[] = {heads("W_Q"), heads("W_K"), heads("W_V")};
  const auto width = net.d_qkv();
  Array qkv({batch, length, width});
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t p = 0; p < length; ++p) {
      std::int64_t at = 0;
      for (const Array& part : parts) {
        for (std::int64_t h = 0; h < part.size(2); ++h) {
          for (std::int64_t d = 0; d < part.size(3); ++d) qkv(b, p, at++) = part(b, p, h, d);
        }
      }
    }
  }
  qkv = points.keep(name + "hook_qkv", qkv);
  const Array filtered = convolved(qkv, weights.at(name + "filter.weight"), {}, sequence);
  Array q(parts[0].shape), k(parts[1].shape), v(parts[2].shape);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t p = 0; p < length; ++p) {
      std::int64_t at = 0;
      for (Array* part : {&q, &k, &v}) {
        for (std::int64_t h = 0; h < part->size(2); ++h) {
          for (std::int64_t d = 0; d < part->size(3); ++d) (*part)(b, p, h, d) = silu(filtered(b, p, at++));
        }
      }
    }
  }
  q = points.keep(name + "hook_q", q);
  k = points.keep(name + "hook_k", k);
  v = points.keep(name + "hook_v", v);
  Array beta = linear(x, weights.at(name + "W_beta"), {}),
        decay = linear(x, weights.at(name + "W_decay"), {});
  for (std::int64_t r = 0; r < beta.rows(); ++r) {
    for (std::int64_t h = 0; h < net.n_heads; ++h) {
      beta.row(r)[h] = (net.doubled_beta ? 2.0 : 1.0) / (1.0 + std::exp(-beta.row(r)[h]));
      const double step = decay.row(r)[h] + weights.at(name + "dt_bias")(h);
      decay.row(r)[h] = -std::exp(weights.at(name + "A_log")(h)) * std::log1p(std::exp(step));
    }
  }
  beta = points.keep(name + "hook_beta", beta);
  decay = points.keep(name + "hook_decay", decay);

  // Token by token, as the recurrence is written.
  Array out(v.shape);
  Array states({batch, length, net.n_heads, net.d_key, net.d_value});
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < net.n_heads; ++h) {
      Array state({net.d_key, net.d_value});
      for (std::int64_t p = 0; p < length; ++p) {
        double q_length = 1e-6, k_length = 1e-6;
        for (std::int64_t i = 0; i < net.d_key; ++i) {
          q_length += q(b, p, h / group, i) * q(b, p, h / group, i);
          k_length += k(b, p, h / group, i) * k(b, p, h / group, i);
        }
        const auto key = [&](std::int64_t i) { return k(b, p, h / group, i) / std::sqrt(k_length); };
        const bool real = sequence.real[b][p];
        for (std::int64_t j = 0; j < net.d_value && real; ++j) {
          double held = 0.0;
          for (std::int64_t i = 0; i < net.d_key; ++i) {
            state(i, j) *= std::exp(decay(b, p, h));
            held += state(i, j) * key(i);
          }
          for (std::int64_t i = 0; i < net.d_key; ++i) {
            state(i, j) += key(i) * beta(b, p, h) * (v(b, p, h, j) - held);
          }
        }
        std::copy(state.values.begin(), state.values.end(),
                  states.row(((b * length + p) * net.n_heads + h) * net.d_key));
        const double divisor = std::sqrt(q_length) * std::sqrt(static_cast<double>(net.d_key));
        for (std::int64_t j = 0; j < net.d_value; ++j) {
          for (std::int64_t i = 0; i < net.d_key; ++i) {
            out(b, p, h, j) += state(i, j) * q(b, p, h / group, i) / divisor;
          }
        }
      }
    }
  }
  points.note(name + "hook_state", states);
  out = points.keep(name + "hook_out", out);
  const Array gate = points.keep(name + "hook_gate", heads("W_gate"));
  Norm norm = norm_of(config, weights, NormKind::rms_norm, name + "norm");
  norm.offset = false;
  norm.eps = net.norm_eps.value_or(config.eps);
  Array gated = apply_norm(norm, out, name + "norm", points);
  for (std::size_t i = 0; i < gated.values.size(); ++i) gated.values[i] *= silu(gate.values[i]);
  gated = points.keep(name + "hook_gated", gated);
  Array flat = gated, W_O = weights.at(name + "W_O");
  flat.shape = {batch, length, net.n_heads * net.d_value};
  W_O.shape = {net.n_heads * net.d_value, config.d_model};
  return linear(flat, W_O, {});
}

}  // namespace hooked::reference
