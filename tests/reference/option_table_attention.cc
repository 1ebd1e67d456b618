#include <algorithm>
#include <cmath>

#include "option_values.h"

namespace hooked::reference {
namespace {

OptionValue heads_value(std::string name, std::function<std::int64_t(std::int64_t)> kv_heads) {
  return value(
      std::move(name), [kv_heads](Config& c) { c.n_kv_heads = kv_heads(c.n_heads); },
      [kv_heads](const Config& c) { return c.n_kv_heads == kv_heads(c.n_heads); });
}

OptionValue position_value(std::string name, PositionKind kind) {
  return value(
      std::move(name), [kind](Config& c) { c.positions = kind; },
      [kind](const Config& c) { return c.positions == kind; });
}

/// A rotary model that differs from the plain one in `change`.
OptionValue rotary_value(std::string name, std::function<void(Config&)> change,
                         std::function<bool(const Config&)> holds) {
  return value(
      std::move(name),
      [change](Config& c) {
        c.positions = PositionKind::rotary;
        change(c);
      },
      [holds](const Config& c) { return c.positions == PositionKind::rotary && holds(c); });
}

}  // namespace

Option heads() {
  return {"heads",
          {heads_value("multi-head", [](auto n) { return n; }),
           value(
               "grouped-query", [](Config& c) { c.n_kv_heads = c.n_heads / 2; },
               [](const Config& c) { return c.n_kv_heads > 1 && c.n_kv_heads < c.n_heads; }),
           heads_value("multi-query", [](auto) { return 1; })}};
}

Option positions() {
  using enum PositionKind;
  const auto yarn = [](bool truncate) {
    return [truncate](Config& c) {
      c.rotary.scaling = {.kind = RopeScalingKind::yarn,
                          .factor = 4.0,
                          .original_n_ctx = 64.0,
                          .attention_factor = 1.25,
                          .beta_fast = 8.0,
                          .beta_slow = 0.05,
                          .truncate = truncate};
    };
  };
  const auto scaled = [](RopeScalingKind kind) {
    return [kind](const Config& c) { return c.rotary.scaling.kind == kind; };
  };
  const auto scaled_by_yarn = [](bool truncate) {
    return [truncate](const Config& c) {
      return c.rotary.scaling.kind == RopeScalingKind::yarn && c.rotary.scaling.truncate == truncate;
    };
  };
  std::vector<OptionValue> values = {
      position_value("learned", learned),
      position_value("none", none),
      position_value("shortformer", shortformer),
      rotary_value(
          "rotary, whole head", [](Config&) {},
          [](const Config& c) {
            RotaryConfig rest = c.rotary;
            rest.dim = 0;
            return c.rotary_dim() == c.d_head && rest == RotaryConfig() && c.unrotated_layers.empty();
          }),
      rotary_value(
          "rotary, part of the head", [](Config& c) { c.rotary.dim = c.d_head > 4 ? 4 : 2; },
          [](const Config& c) { return c.rotary_dim() < c.d_head; }),
      rotary_value(
          "rotary, end of the head",
          [](Config& c) {
            c.rotary.dim = c.d_head > 4 ? 4 : 2;
            c.rotary.at_end = true;
          },
          [](const Config& c) { return c.rotary.at_end; }),
      rotary_value(
          "rotary, adjacent pairs", [](Config& c) { c.rotary.adjacent_pairs = true; },
          [](const Config& c) { return c.rotary.adjacent_pairs; }),
      rotary_value(
          "rotary, another base", [](Config& c) { c.rotary.base = 500.0; },
          [](const Config& c) { return c.rotary.base != 10000.0; }),
      rotary_value(
          "rotary, local base",
          [](Config& c) {
            c.rotary.local_base = 100.0;
            c.rotary.scaling = {.kind = RopeScalingKind::linear, .factor = 8.0};
            c.window = 3;
            c.windowed_layers.assign(static_cast<std::size_t>(c.n_layers), true);
            c.windowed_layers.back() = c.n_layers == 1;
          },
          [](const Config& c) { return c.rotary.local_base.has_value(); }),
      rotary_value(
          "rotary, linear scaling",
          [](Config& c) { c.rotary.scaling = {.kind = RopeScalingKind::linear, .factor = 2.5}; },
          scaled(RopeScalingKind::linear)),
      rotary_value(
          "rotary, llama3 scaling",
          [](Config& c) {
            c.rotary.scaling = {.kind = RopeScalingKind::llama3, .factor = 8.0, .original_n_ctx = 200.0};
          },
          scaled(RopeScalingKind::llama3)),
      rotary_value("rotary, yarn scaling", yarn(true), scaled_by_yarn(true)),
      rotary_value("rotary, yarn without rounding", yarn(false), scaled_by_yarn(false)),
      rotary_value(
          "rotary, dynamic scaling",
          [](Config& c) {
            c.rotary.scaling = {.kind = RopeScalingKind::dynamic, .factor = 3.0, .original_n_ctx = 4.0};
          },
          scaled(RopeScalingKind::dynamic)),
      rotary_value(
          "rotary, longrope scaling",
          [](Config& c) {
            c.rotary.scaling = {
                .kind = RopeScalingKind::longrope, .original_n_ctx = 4.0, .attention_factor = 1.2};
            for (std::int64_t i = 0; i < c.rotary_dim() / 2; ++i) {
              c.rotary.scaling.short_factors.push_back(1.0 + 0.2 * static_cast<double>(i));
              c.rotary.scaling.long_factors.push_back(2.0 + 0.5 * static_cast<double>(i));
            }
          },
          [](const Config& c) {
            return c.rotary.scaling.kind == RopeScalingKind::longrope &&
                   !c.rotary.scaling.long_attention_factor;
          }),
      rotary_value(
          "rotary, longrope with two magnitudes",
          [](Config& c) {
            const auto pairs = static_cast<std::size_t>(c.rotary_dim() / 2);
            c.rotary.scaling = {.kind = RopeScalingKind::longrope,
                                .original_n_ctx = 4.0,
                                .attention_factor = 1.2,
                                .short_factors = std::vector<double>(pairs, 1.3),
                                .long_factors = std::vector<double>(pairs, 1.3),
                                .long_attention_factor = 0.8};
          },
          [](const Config& c) { return c.rotary.scaling.long_attention_factor.has_value(); }),
      rotary_value(
          "rotary, a layer without",
          [](Config& c) {
            c.unrotated_layers.assign(static_cast<std::size_t>(c.n_layers), false);
            c.unrotated_layers.back() = true;
          },
          [](const Config& c) { return !c.unrotated_layers.empty(); }),
      value(
          "alibi, bfloat16 products, scaled",
          [](Config& c) {
            c.positions = alibi;
            c.alibi_slopes = geometric_alibi_slopes(c.n_heads);
            c.alibi_in_bfloat16 = c.alibi_scaled = true;
          },
          [](const Config& c) { return c.alibi_in_bfloat16 && c.alibi_scaled; }),
      value(
          "alibi",
          [](Config& c) {
            c.positions = alibi;
            c.alibi_slopes = geometric_alibi_slopes(c.n_heads);
          },
          [](const Config& c) {
            return c.positions == alibi && c.alibi_slopes == geometric_alibi_slopes(c.n_heads) &&
                   !c.alibi_scaled;
          }),
      value(
          "alibi, own slopes",
          [](Config& c) {
            c.positions = alibi;
            c.alibi_slopes.clear();
            for (std::int64_t h = 0; h < c.n_heads; ++h) c.alibi_slopes.push_back(0.9 / (1.0 + 0.7 * h));
          },
          [](const Config& c) {
            return c.positions == alibi && c.alibi_slopes != geometric_alibi_slopes(c.n_heads);
          }),
      value(
          "relative",
          [](Config& c) {
            c.positions = relative;
            c.relative = {.buckets = 7, .max_distance = 5};
          },
          [](const Config& c) { return c.positions == relative; })};
  return {"positions", std::move(values)};
}

Option windows() {
  const auto some_windowed = [](const Config& c) { return std::ranges::count(c.windowed_layers, true) > 0; };
  return {"window",
          {value(
               "none", [](Config&) {}, [some_windowed](const Config& c) { return !some_windowed(c); }),
           value(
               "all layers",
               [](Config& c) {
                 c.window = 3;
                 c.windowed_layers.assign(static_cast<std::size_t>(c.n_layers), true);
               },
               [some_windowed](const Config& c) {
                 return some_windowed(c) && std::ranges::count(c.windowed_layers, false) == 0;
               }),
           value(
               "every other layer",
               [](Config& c) {
                 c.window = 2;
                 c.windowed_layers.assign(static_cast<std::size_t>(c.n_layers), false);
                 for (std::size_t l = 0; l < c.windowed_layers.size(); l += 2) c.windowed_layers[l] = true;
               },
               [some_windowed](const Config& c) {
                 return some_windowed(c) && std::ranges::count(c.windowed_layers, false) > 0;
               })}};
}

Option latents() {
  const auto latent = [](std::string name, std::function<LatentConfig(const Config&)> made,
                         std::function<bool(const LatentConfig&, const Config&)> holds) {
    return value(
        std::move(name), [made](Config& c) { c.latent = made(c); },
        [holds](const Config& c) { return c.latent_attention() && holds(c.latent, c); });
  };
  return {
      "latents",
      {value(
           "none", [](Config&) {}, [](const Config& c) { return !c.latent_attention(); }),
       latent(
           "of queries and of keys and values",
           [](const Config& c) {
             return LatentConfig{
                 .d_kv = 5, .d_query = 7, .d_shared_key = c.d_head / 2, .d_value = c.d_head + 1};
           },
           [](const LatentConfig& l, const Config& c) { return l.d_query > 0 && l.d_value > c.d_head; }),
       latent(
           "of keys and values",
           [](const Config& c) {
             return LatentConfig{.d_kv = 4,
                                 .d_shared_key = 1,
                                 .d_value = std::max<std::int64_t>(1, c.d_head - 1),
                                 .eps = 1e-2};
           },
           [](const LatentConfig& l, const Config& c) { return l.d_query == 0 && l.d_value < c.d_head; })}};
}

Option qk_norms() {
  using enum QkNorm;
  const auto norm = [](std::string name, QkNorm span, NormKind kind, bool bias) {
    return value(
        std::move(name),
        [=](Config& c) {
          c.qk_norm = span;
          c.qk_norm_kind = kind;
          c.qk_norm_bias = bias;
        },
        [=](const Config& c) {
          return c.qk_norm == span && c.qk_norm_kind == kind && c.qk_norm_bias == bias;
        });
  };
  return {
      "q/k norm",
      {norm("none", none, NormKind::rms_norm, false), norm("per head", per_head, NormKind::rms_norm, false),
       norm("per head, LayerNorm with bias", per_head, NormKind::layer_norm, true),
       norm("each head its own, LayerNorm", each_head, NormKind::layer_norm, false),
       norm("whole projection", whole_projection, NormKind::rms_norm, false)}};
}

Option attention_scales() {
  const auto set = [](std::function<double(const Config&)> scale) {
    return [scale](Config& c) { c.attn_scale = scale(c); };
  };
  const auto root = [](const Config& c) { return std::sqrt(static_cast<double>(c.d_head)); };
  return {
      "attention scale",
      {value("sqrt(d_head)", set(root), [root](const Config& c) { return c.attn_scale == root(c); }),
       value(
           "1", [](Config& c) { c.attn_scale = 1.0; }, [](const Config& c) { return c.attn_scale == 1.0; }),
       value(
           "another", [](Config& c) { c.attn_scale = 1.7; },
           [root](const Config& c) { return c.attn_scale != root(c) && c.attn_scale != 1.0; })}};
}

}  // namespace hooked::reference
