#include <algorithm>
#include <cmath>
#include <limits>

#include "plain_layers.h"

namespace hooked::reference {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

/// x W + b for every head: `x` [batch, pos, d_model], `weight` [heads, d_model, d_head], `bias` [heads,
/// d_head] or empty. Returns [batch, pos, heads, d_head].
Array project_heads(const Array& x, const Array& weight, const Array& bias) {
  Array out({x.size(0), x.size(1), weight.size(0), weight.size(2)});
  for (std::int64_t b = 0; b < out.size(0); ++b) {
    for (std::int64_t p = 0; p < out.size(1); ++p) {
      for (std::int64_t h = 0; h < out.size(2); ++h) {
        for (std::int64_t d = 0; d < out.size(3); ++d) {
          double total = bias.shape.empty() ? 0.0 : bias(h, d);
          for (std::int64_t m = 0; m < x.size(2); ++m) total += x(b, p, m) * weight(h, m, d);
          out(b, p, h, d) = total;
        }
      }
    }
  }
  return out;
}

/// Keys' own parts [batch, pos, head, own] with what all heads share [batch, pos, shared] after each.
Array with_shared_part(const Array& own, const Array& shared) {
  const std::int64_t width = own.last();
  Array out({own.size(0), own.size(1), own.size(2), width + shared.last()});
  for (std::int64_t b = 0; b < out.size(0); ++b) {
    for (std::int64_t p = 0; p < out.size(1); ++p) {
      for (std::int64_t h = 0; h < out.size(2); ++h) {
        for (std::int64_t d = 0; d < out.size(3); ++d) {
          out(b, p, h, d) = d < width ? own(b, p, h, d) : shared(b, p, d - width);
        }
      }
    }
  }
  return out;
}

/// Queries, keys and values.
struct Heads {
  Array q, k, v;
};

/// Latent attention (DeepSeek-AI 2024, section 2.1).
Heads heads_from_latents(const ModelConfig& config, const Weights& weights, const std::string& name,
                         const Array& x, Points& points) {
  const auto read = [&](const std::string& which) {
    return linear(x, weights.at(name + "W_" + which), weight_or_empty(weights, name + "b_" + which));
  };
  const auto latent = [&](const std::string& which, const std::string& side) {
    Norm norm = norm_of(config, weights, NormKind::rms_norm, name + side + "_latent_norm");
    norm.eps = config.latent->eps;
    return points.keep(name + "hook_" + side + "_latent",
                       apply_norm(norm, read(which), name + side + "_latent_norm", points));
  };
  Heads heads;
  if (config.query_latent()) {
    heads.q = project_heads(latent("DQ", "q"), weights.at(name + "W_UQ"), {});
  } else {
    heads.q = project_heads(x, weights.at(name + "W_Q"), weight_or_empty(weights, name + "b_Q"));
  }
  const Array kv = latent("DKV", "kv");
  heads.k = project_heads(kv, weights.at(name + "W_UK"), {});
  heads.v = project_heads(kv, weights.at(name + "W_UV"), {});
  if (config.latent->d_shared_key > 0) {
    heads.k = with_shared_part(heads.k, points.keep(name + "hook_k_shared", read("KR")));
  }
  return heads;
}

/// Queries, keys and values straight from what attention reads.
Heads heads_from_stream(const ModelConfig& config, const Weights& weights, const std::string& name,
                        const Array& x, const Sequence& sequence) {
  const std::string kv = name + (config.grouped_query() ? "_" : "");
  const auto project = [&](const Array& read, const std::string& prefix, const std::string& which) {
    return project_heads(read, weights.at(prefix + "W_" + which),
                         weight_or_empty(weights, prefix + "b_" + which));
  };
  // Shortformer (Press et al. 2021): positions reach the queries and keys, never the values or the stream.
  const Array placed = config.shortformer() ? sum(x, sequence.pos_embed) : x;
  const Array queries = project(placed, name, "Q");
  if (!weights.contains(kv + "W_K")) return {queries, {}, {}};
  return {queries, project(placed, kv, "K"), project(x, kv, "V")};
}

/// The norm of queries or keys [batch, pos, heads, d_head]: of each head alone, or of all heads as one
/// vector.
Array norm_heads(const ModelConfig& config, const Weights& weights, const Array& x, const std::string& name,
                 Points& points) {
  const Norm norm = norm_of(config, weights, config.qk_norm->kind, name);
  if (config.qk_norm->span == QkNorm::per_head) return apply_norm(norm, x, name, points);
  if (config.qk_norm->span == QkNorm::each_head) {
    Array out =
        apply_norm({.kind = norm.kind, .eps = norm.eps, .offset = false, .w = {}, .b = {}}, x, name, points);
    for (std::int64_t r = 0; r < out.rows(); ++r) {
      const std::int64_t first = r % x.size(2) * x.last();
      for (std::int64_t d = 0; d < out.last(); ++d) {
        const double w = norm.w(first + d) + (norm.offset ? 1.0 : 0.0);
        out.row(r)[d] = out.row(r)[d] * w + (norm.b.shape.empty() ? 0.0 : norm.b(first + d));
      }
    }
    return out;
  }
  Norm over_all = norm;
  over_all.heads = x.size(2);
  Array flat = x;
  flat.shape = {x.size(0), x.size(1), x.size(2) * x.size(3)};
  Array out = apply_norm(over_all, flat, name, points);
  out.shape = x.shape;
  return out;
}

/// Queries [batch, pos, head, d_head], scaled by their positions (Nakanishi 2025).
Array grown(const ModelConfig& config, Array queries, const Sequence& sequence) {
  const QueryGrowth& growth = *config.query_growth;
  for (std::int64_t b = 0; b < queries.size(0); ++b) {
    for (std::int64_t p = 0; p < queries.size(1); ++p) {
      const auto place = static_cast<double>(sequence.positions[b][p] + growth.offset);
      const double factor = 1.0 + growth.growth * std::log(1.0 + std::floor(place / growth.tokens));
      for (std::int64_t h = 0; h < queries.size(2); ++h) {
        for (std::int64_t d = 0; d < queries.size(3); ++d) queries(b, p, h, d) *= factor;
      }
    }
  }
  return queries;
}

/// Whether the token of row `b` at column `query` may look at the token at column `key`.
bool visible(const ModelConfig& config, std::int64_t layer, const Sequence& sequence, std::int64_t b,
             std::int64_t query, std::int64_t key) {
  if (!sequence.real[b][query] || !sequence.real[b][key]) return false;
  if (sequence.direction == AttentionDirection::causal && key > query) return false;
  if (!config.windowed(layer)) return true;
  if (config.window->kind == Window::sliding) return std::abs(key - query) < config.window->size;
  const std::int64_t at_query = sequence.positions[b][query], at_key = sequence.positions[b][key];
  return at_query / config.window->size == at_key / config.window->size;
}

/// The nearest number with an 8-bit significand, ties to even: bfloat16 for numbers of usual size.
double to_bfloat16(double x) {
  int exponent = 0;
  const double significand = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(significand, 8)), exponent - 8);
}

/// ALiBi (Press et al. 2022) between two positions.
double alibi(const ModelConfig& config, std::int64_t head, std::int64_t query, std::int64_t key) {
  const double slope = config.alibi()->slopes[head];
  double bias = slope * static_cast<double>(std::min<std::int64_t>(0, key - query));
  if (config.alibi()->in_bfloat16) {
    const auto rounded = [slope](std::int64_t place) {
      return to_bfloat16(to_bfloat16(slope) * static_cast<double>(place));
    };
    bias = rounded(key) - rounded(query);
  }
  return config.alibi()->scaled ? bias / config.attn_scale : bias;
}

/// The bucket of T5's relative positions (Raffel et al. 2020) that a distance falls into.
std::int64_t relative_bucket(const ModelConfig& config, AttentionDirection direction, std::int64_t query,
                             std::int64_t key) {
  const bool both_ways = direction == AttentionDirection::bidirectional;
  const std::int64_t buckets = both_ways ? config.relative()->buckets / 2 : config.relative()->buckets;
  const std::int64_t exact = buckets / 2;
  const std::int64_t away = both_ways ? std::abs(key - query) : std::max<std::int64_t>(0, query - key);
  std::int64_t bucket = away;
  if (away >= exact) {
    const double part =
        std::log(static_cast<double>(away) / static_cast<double>(exact)) /
        std::log(static_cast<double>(config.relative()->max_distance) / static_cast<double>(exact));
    bucket =
        std::min(buckets - 1, exact + static_cast<std::int64_t>(part * static_cast<double>(buckets - exact)));
  }
  return both_ways && key > query ? bucket + buckets : bucket;
}

/// Added to a layer's scores for distances, [batch, head, query, key]; empty without relative positions.
Array relative_bias(const ModelConfig& config, const Weights& weights, std::int64_t layer,
                    const Sequence& sequence) {
  if (config.relative() == nullptr) return {};
  const std::string holder = config.relative()->in_every_block ? std::to_string(layer) : "0";
  const Array& table =
      weights.at(sequence.stack + "." + holder + ".attn.rel_pos_bias.weight");  // [bucket, head]
  const auto batch = static_cast<std::int64_t>(sequence.positions.size());
  const auto length = static_cast<std::int64_t>(sequence.positions.front().size());
  Array bias({batch, config.n_heads, length, length});
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < config.n_heads; ++h) {
      for (std::int64_t i = 0; i < length; ++i) {
        for (std::int64_t j = 0; j < length; ++j) {
          const std::int64_t query = sequence.positions[b][i], key = sequence.positions[b][j];
          if (sequence.direction == AttentionDirection::causal && key > query) continue;
          bias(b, h, i, j) = table(relative_bucket(config, sequence.direction, query, key), h);
        }
      }
    }
  }
  return bias;
}

/// `x` with every value clipped to the config's bound.
Array clamped(const ModelConfig& config, Array x) {
  if (config.qkv_clip == 0.0) return x;
  for (double& value : x.values) value = std::clamp(value, -config.qkv_clip, config.qkv_clip);
  return x;
}

/// Scores of queries [batch, pos, head, d_head] and keys [batch, pos, kv_head, d_head]: [batch, head, query,
/// key].
Array score(const ModelConfig& config, std::int64_t layer, const Array& q, const Array& k,
            const Sequence& sequence, const Array& relative) {
  const std::int64_t group = q.size(2) / k.size(2);  // consecutive heads share a key/value head
  const double divisor =
      config.attn_scale * (config.scale_by_inverse_layer ? static_cast<double>(layer + 1) : 1.0);
  const double cap = config.score_soft_cap;
  Array out({q.size(0), q.size(2), q.size(1), k.size(1)});
  for (std::int64_t b = 0; b < out.size(0); ++b) {
    for (std::int64_t h = 0; h < out.size(1); ++h) {
      for (std::int64_t i = 0; i < out.size(2); ++i) {
        for (std::int64_t j = 0; j < out.size(3); ++j) {
          if (!visible(config, layer, sequence, b, i, j)) {
            out(b, h, i, j) = kMasked;
            continue;
          }
          double value = 0.0;
          for (std::int64_t d = 0; d < q.size(3); ++d) value += q(b, i, h, d) * k(b, j, h / group, d);
          value /= divisor;
          if (cap > 0.0) value = cap * std::tanh(value / cap);
          if (config.alibi() != nullptr) {
            value += alibi(config, h, sequence.positions[b][i], sequence.positions[b][j]);
          }
          if (!relative.shape.empty()) value += relative(b, h, i, j);
          out(b, h, i, j) = value;
        }
      }
    }
  }
  return out;
}

/// Softmax over keys; a row with every key masked is zero. Each head's entry of `sinks` [head] takes part
/// too.
Array softmax_rows(const Array& scores, const Array& sinks) {
  Array out(scores.shape);
  for (std::int64_t r = 0; r < scores.rows(); ++r) {
    double largest = kMasked, total = 0.0;
    for (std::int64_t j = 0; j < scores.last(); ++j) largest = std::max(largest, scores.row(r)[j]);
    // NaN stays NaN.
    const bool numbers = std::none_of(scores.row(r), scores.row(r) + scores.last(),
                                      [](double score) { return std::isnan(score); });
    if (largest == kMasked && numbers) continue;
    if (!sinks.shape.empty()) total += std::exp(sinks(r / scores.size(2) % scores.size(1)) - largest);
    for (std::int64_t j = 0; j < scores.last(); ++j) total += std::exp(scores.row(r)[j] - largest);
    for (std::int64_t j = 0; j < scores.last(); ++j) {
      out.row(r)[j] = std::exp(scores.row(r)[j] - largest) / total;
    }
  }
  return out;
}

/// Values [batch, pos, kv_head, d_head] mixed by the pattern: [batch, pos, head, d_head].
Array mix(const Array& pattern, const Array& v) {
  const std::int64_t group = pattern.size(1) / v.size(2);
  Array out({pattern.size(0), pattern.size(2), pattern.size(1), v.size(3)});
  for (std::int64_t b = 0; b < out.size(0); ++b) {
    for (std::int64_t i = 0; i < out.size(1); ++i) {
      for (std::int64_t h = 0; h < out.size(2); ++h) {
        for (std::int64_t d = 0; d < out.size(3); ++d) {
          for (std::int64_t j = 0; j < pattern.size(3); ++j) {
            out(b, i, h, d) += pattern(b, h, i, j) * v(b, j, h / group, d);
          }
        }
      }
    }
  }
  return out;
}

/// What each head writes: z W_O, [batch, pos, head, d_model].
Array head_results(const Array& z, const Array& weight) {
  Array out({z.size(0), z.size(1), z.size(2), weight.size(2)});
  for (std::int64_t b = 0; b < out.size(0); ++b) {
    for (std::int64_t p = 0; p < out.size(1); ++p) {
      for (std::int64_t h = 0; h < out.size(2); ++h) {
        for (std::int64_t m = 0; m < out.size(3); ++m) {
          for (std::int64_t d = 0; d < z.size(3); ++d) out(b, p, h, m) += z(b, p, h, d) * weight(h, d, m);
        }
      }
    }
  }
  return out;
}

/// What all heads write, and the bias: [batch, pos, d_model].
Array sum_of_heads(const Array& result, const Array& b_O) {
  Array out({result.size(0), result.size(1), result.size(3)});
  for (std::int64_t b = 0; b < out.size(0); ++b) {
    for (std::int64_t p = 0; p < out.size(1); ++p) {
      for (std::int64_t m = 0; m < out.size(2); ++m) {
        double total = b_O.shape.empty() ? 0.0 : b_O(m);
        for (std::int64_t h = 0; h < result.size(2); ++h) total += result(b, p, h, m);
        out(b, p, m) = total;
      }
    }
  }
  return out;
}

}  // namespace

Array attention(const ModelConfig& config, const Weights& weights, std::int64_t layer, const Array& x,
                const Sequence& sequence, Points& points) {
  const std::string name = sequence.stack + "." + std::to_string(layer) + ".attn.";
  Heads made = config.latent_attention() ? heads_from_latents(config, weights, name, x, points)
                                         : heads_from_stream(config, weights, name, x, sequence);
  // The last layers may attend with the keys and values of an earlier one.
  const bool makes_keys = !config.shared_keys || layer < config.n_layers - config.shared_keys->layers;
  const Array q = points.keep(name + "hook_q", std::move(made.q));
  const Array k = makes_keys ? points.keep(name + "hook_k", std::move(made.k)) : Array();
  const Array v = makes_keys ? points.keep(name + "hook_v", std::move(made.v)) : Array();

  const bool norms = config.norms_heads(layer);
  const bool norms_first = norms && !config.qk_norm->after_rotary;
  Array query = clamped(config, norms_first ? norm_heads(config, weights, q, name + "q_norm", points) : q);
  const auto norm_keys = [&](const Array& keys) {
    return norm_heads(config, weights, keys, name + "k_norm", points);
  };
  Array key = makes_keys ? clamped(config, norms_first ? norm_keys(k) : k) : Array();
  // A norm without a weight (Gemma 4).
  const Norm values{
      .kind = config.value_norm ? NormKind::rms_norm : NormKind::none, .eps = config.eps, .w = {}, .b = {}};
  Array value = makes_keys ? clamped(config, apply_norm(values, v, name + "v_norm", points)) : Array();
  if (config.rotates(layer)) {
    query = rotate(query, config, layer, sequence);
    if (makes_keys) key = points.keep(name + "hook_rot_k", rotate(key, config, layer, sequence));
  }
  if (config.grows_queries(layer)) query = grown(config, query, sequence);
  if (config.rotates(layer) || config.grows_queries(layer)) query = points.keep(name + "hook_rot_q", query);
  if (norms && !norms_first) {
    query = norm_heads(config, weights, query, name + "q_norm", points);
    if (makes_keys) key = norm_keys(key);
  }
  if (config.shared_keys) {
    MadeKeys& last = (*sequence.made)[config.window && config.window->layers[layer]];
    if (makes_keys) last = {key, value};
    key = last.keys;
    value = last.values;
  }

  const Array relative = relative_bias(config, weights, layer, sequence);
  const bool own = layer == 0 || (config.relative() != nullptr && config.relative()->in_every_block);
  if (!relative.shape.empty() && own) points.note(name + "rel_pos_hook", relative);
  const Array scores =
      points.keep(name + "hook_attn_scores", score(config, layer, query, key, sequence, relative));
  const Array pattern =
      points.keep(name + "hook_pattern", softmax_rows(scores, weight_or_empty(weights, name + "sinks")));
  Array mixed = mix(pattern, value);
  if (config.gated_heads) {
    const Array gate = points.keep(name + "hook_gate", project_heads(x, weights.at(name + "W_G"),
                                                                     weight_or_empty(weights, name + "b_G")));
    for (std::size_t i = 0; i < mixed.values.size(); ++i) mixed.values[i] /= 1.0 + std::exp(-gate.values[i]);
  }
  const Array z = points.keep(name + "hook_z", mixed);
  const Array result = points.keep(name + "hook_result", head_results(z, weights.at(name + "W_O")));
  return sum_of_heads(result, weight_or_empty(weights, name + "b_O"));
}

Array cross_attention(const ModelConfig& config, const Weights& weights, std::int64_t layer, const Array& x,
                      const Encoded& encoded, Points& points) {
  const std::string name = "decoder." + std::to_string(layer) + ".cross_attn.";
  const std::string kv = name + (config.grouped_query() ? "_" : "");
  const auto project = [&](const Array& read, const std::string& prefix, const std::string& which) {
    return project_heads(read, weights.at(prefix + "W_" + which),
                         weight_or_empty(weights, prefix + "b_" + which));
  };
  const Array q = points.keep(name + "hook_q", project(x, name, "Q"));
  const Array k = points.keep(name + "hook_k", project(encoded.output, kv, "K"));
  const Array v = points.keep(name + "hook_v", project(encoded.output, kv, "V"));

  const std::int64_t group = q.size(2) / k.size(2);
  Array scores({q.size(0), q.size(2), q.size(1), k.size(1)});
  for (std::int64_t b = 0; b < scores.size(0); ++b) {
    for (std::int64_t h = 0; h < scores.size(1); ++h) {
      for (std::int64_t i = 0; i < scores.size(2); ++i) {
        for (std::int64_t j = 0; j < scores.size(3); ++j) {
          double value = 0.0;
          for (std::int64_t d = 0; d < q.size(3); ++d) value += q(b, i, h, d) * k(b, j, h / group, d);
          scores(b, h, i, j) = encoded.real[b][j] ? value / config.attn_scale : kMasked;
        }
      }
    }
  }
  scores = points.keep(name + "hook_attn_scores", scores);
  const Array pattern = points.keep(name + "hook_pattern", softmax_rows(scores, {}));
  const Array z = points.keep(name + "hook_z", mix(pattern, v));
  const Array result = points.keep(name + "hook_result", head_results(z, weights.at(name + "W_O")));
  return sum_of_heads(result, weight_or_empty(weights, name + "b_O"));
}

}  // namespace hooked::reference
