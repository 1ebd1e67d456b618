#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "option_values.h"

namespace hooked::reference {
namespace {

OptionValue heads_value(std::string name, std::function<std::int64_t(std::int64_t)> kv_heads) {
  return value(
      std::move(name), [kv_heads](Config& c) { c.n_kv_heads = kv_heads(c.n_heads); },
      [kv_heads](const Config& c) { return c.n_kv_heads == kv_heads(c.n_heads); });
}

template <class Kind>
OptionValue position_value(std::string name) {
  return value(
      std::move(name), [](Config& c) { c.positions = Kind{}; },
      [](const Config& c) { return std::holds_alternative<Kind>(c.positions); });
}

template <class Kind>
const Kind* scaling(const Config& c) {
  return std::get_if<Kind>(&c.rotary()->scaling);
}

/// A rotary model that differs from the plain one in `change`.
OptionValue rotary_value(std::string name, std::function<void(Config&)> change,
                         std::function<bool(const Config&)> holds) {
  return value(
      std::move(name),
      [change](Config& c) {
        c.positions = RotaryPositions{};
        change(c);
      },
      [holds](const Config& c) { return c.rotary() != nullptr && holds(c); });
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
  const auto yarn = [](bool truncate) {
    return [truncate](Config& c) {
      c.rotary()->scaling = YarnScaling{.factor = 4.0,
                                        .original_n_ctx = 64.0,
                                        .attention_factor = 1.25,
                                        .beta_fast = 8.0,
                                        .beta_slow = 0.05,
                                        .truncate = truncate};
    };
  };
  const auto scaled_by_yarn = [](bool truncate) {
    return [truncate](const Config& c) {
      const auto* found = scaling<YarnScaling>(c);
      return found != nullptr && found->truncate == truncate;
    };
  };
  std::vector<OptionValue> values = {
      position_value<LearnedPositions>("learned"),
      position_value<NoPositions>("none"),
      position_value<ShortformerPositions>("shortformer"),
      rotary_value(
          "rotary, whole head", [](Config&) {},
          [](const Config& c) {
            RotaryPositions rest = *c.rotary();
            rest.dim = 0;
            return c.rotary_dim(0) == c.d_head && rest == RotaryPositions();
          }),
      rotary_value(
          "rotary, part of the head", [](Config& c) { c.rotary()->dim = c.d_head > 4 ? 4 : 2; },
          [](const Config& c) { return c.rotary_dim(0) < c.d_head; }),
      rotary_value(
          "rotary, end of the head",
          [](Config& c) {
            c.rotary()->dim = c.d_head > 4 ? 4 : 2;
            c.rotary()->at_end = true;
          },
          [](const Config& c) { return c.rotary()->at_end; }),
      rotary_value(
          "rotary, adjacent pairs", [](Config& c) { c.rotary()->adjacent_pairs = true; },
          [](const Config& c) { return c.rotary()->adjacent_pairs; }),
      rotary_value(
          "rotary, reversed", [](Config& c) { c.rotary()->reversed = true; },
          [](const Config& c) { return c.rotary()->reversed; }),
      rotary_value(
          "rotary, some pairs", [](Config& c) { c.rotary()->turned_pairs = 1; },
          [](const Config& c) { return c.rotary()->turned_pairs > 0; }),
      rotary_value(
          "rotary, another base", [](Config& c) { c.rotary()->base = 500.0; },
          [](const Config& c) { return c.rotary()->base != 10000.0; }),
      rotary_value(
          "rotary, local base",
          [](Config& c) {
            c.rotary()->local_base = 100.0;
            c.rotary()->scaling = LinearScaling{.factor = 8.0};
            c.window =
                Window{.size = 3, .layers = std::vector<bool>(static_cast<std::size_t>(c.n_layers), true)};
            c.window->layers.back() = c.n_layers == 1;
          },
          [](const Config& c) { return c.rotary()->local_base.has_value(); }),
      rotary_value(
          "rotary, linear scaling", [](Config& c) { c.rotary()->scaling = LinearScaling{.factor = 2.5}; },
          [](const Config& c) { return scaling<LinearScaling>(c) != nullptr; }),
      rotary_value(
          "rotary, llama3 scaling",
          [](Config& c) { c.rotary()->scaling = Llama3Scaling{.factor = 8.0, .original_n_ctx = 200.0}; },
          [](const Config& c) { return scaling<Llama3Scaling>(c) != nullptr; }),
      rotary_value("rotary, yarn scaling", yarn(true), scaled_by_yarn(true)),
      rotary_value("rotary, yarn without rounding", yarn(false), scaled_by_yarn(false)),
      rotary_value(
          "rotary, dynamic scaling",
          [](Config& c) { c.rotary()->scaling = DynamicScaling{.factor = 3.0, .original_n_ctx = 4.0}; },
          [](const Config& c) { return scaling<DynamicScaling>(c) != nullptr; }),
      rotary_value(
          "rotary, longrope scaling",
          [](Config& c) {
            LongropeScaling longrope{.original_n_ctx = 4.0, .attention_factor = 1.2};
            for (std::int64_t i = 0; i < c.rotary_dim(0) / 2; ++i) {
              longrope.short_factors.push_back(1.0 + 0.2 * static_cast<double>(i));
              longrope.long_factors.push_back(2.0 + 0.5 * static_cast<double>(i));
            }
            c.rotary()->scaling = std::move(longrope);
          },
          [](const Config& c) {
            const auto* longrope = scaling<LongropeScaling>(c);
            return longrope != nullptr && !longrope->long_attention_factor;
          }),
      rotary_value(
          "rotary, longrope with two magnitudes",
          [](Config& c) {
            const auto pairs = static_cast<std::size_t>(c.rotary_dim(0) / 2);
            c.rotary()->scaling = LongropeScaling{.short_factors = std::vector<double>(pairs, 1.3),
                                                  .long_factors = std::vector<double>(pairs, 1.3),
                                                  .original_n_ctx = 4.0,
                                                  .attention_factor = 1.2,
                                                  .long_attention_factor = 0.8};
          },
          [](const Config& c) {
            const auto* longrope = scaling<LongropeScaling>(c);
            return longrope != nullptr && longrope->long_attention_factor;
          }),
      rotary_value(
          "rotary, a layer without",
          [](Config& c) {
            c.rotary()->unrotated_layers.assign(static_cast<std::size_t>(c.n_layers), false);
            c.rotary()->unrotated_layers.back() = true;
          },
          [](const Config& c) { return !c.rotary()->unrotated_layers.empty(); }),
      value(
          "alibi, bfloat16 products, scaled",
          [](Config& c) {
            c.positions = AlibiPositions{
                .slopes = geometric_alibi_slopes(c.n_heads), .in_bfloat16 = true, .scaled = true};
          },
          [](const Config& c) {
            return c.alibi() != nullptr && c.alibi()->in_bfloat16 && c.alibi()->scaled;
          }),
      value(
          "alibi",
          [](Config& c) { c.positions = AlibiPositions{.slopes = geometric_alibi_slopes(c.n_heads)}; },
          [](const Config& c) {
            return c.alibi() != nullptr && c.alibi()->slopes == geometric_alibi_slopes(c.n_heads) &&
                   !c.alibi()->scaled;
          }),
      value(
          "alibi, own slopes",
          [](Config& c) {
            AlibiPositions alibi;
            for (std::int64_t h = 0; h < c.n_heads; ++h) alibi.slopes.push_back(0.9 / (1.0 + 0.7 * h));
            c.positions = std::move(alibi);
          },
          [](const Config& c) {
            return c.alibi() != nullptr && c.alibi()->slopes != geometric_alibi_slopes(c.n_heads);
          }),
      value(
          "relative", [](Config& c) { c.positions = RelativePositions{.buckets = 7, .max_distance = 5}; },
          [](const Config& c) { return c.relative() != nullptr && !c.relative()->in_every_block; }),
      value(
          "relative, in every block",
          [](Config& c) {
            c.positions = RelativePositions{.buckets = 6, .max_distance = 4, .in_every_block = true};
          },
          [](const Config& c) { return c.relative() != nullptr && c.relative()->in_every_block; })};
  return {"positions", std::move(values)};
}

Option windows() {
  const auto layers = [](const Config& c) { return std::vector<bool>(static_cast<std::size_t>(c.n_layers)); };
  return {"window",
          {value(
               "none", [](Config&) {}, [](const Config& c) { return !c.window; }),
           value(
               "all layers",
               [layers](Config& c) {
                 c.window = Window{.size = 3, .layers = layers(c)};
                 c.window->layers.flip();
               },
               [](const Config& c) {
                 return c.window && c.window->kind == Window::sliding &&
                        std::ranges::count(c.window->layers, false) == 0;
               }),
           value(
               "every other layer",
               [layers](Config& c) {
                 c.window = Window{.size = 2, .layers = layers(c)};
                 for (std::size_t l = 0; l < c.window->layers.size(); l += 2) c.window->layers[l] = true;
               },
               [](const Config& c) {
                 return c.window && c.window->kind == Window::sliding &&
                        std::ranges::count(c.window->layers, false) > 0;
               }),
           value(
               "chunks, but for the last layer",
               [layers](Config& c) {
                 c.window = Window{.kind = Window::chunks, .size = 2, .layers = layers(c)};
                 c.window->layers.flip();
                 c.window->layers.back() = c.n_layers == 1;
               },
               [](const Config& c) { return c.window && c.window->kind == Window::chunks; })}};
}

Option full_heads() {
  return {"heads without a window",
          {value(
               "as the others", [](Config&) {}, [](const Config& c) { return !c.full_heads; }),
           value(
               "of other sizes",
               [](Config& c) {
                 c.full_heads =
                     FullHeads{.d_head = c.d_head + 2, .n_kv_heads = c.n_kv_heads == 1 ? c.n_heads : 1};
                 if (c.window) return;
                 c.window =
                     Window{.size = 2, .layers = std::vector<bool>(static_cast<std::size_t>(c.n_layers))};
                 c.window->layers.front() = true;
               },
               [](const Config& c) { return c.full_heads.has_value(); })}};
}

Option shared_keys() {
  const auto none = value(
      "of their own in every layer", [](Config&) {}, [](const Config& c) { return !c.shared_keys; });
  const auto shared = value(
      "shared by the last layers, whose MLPs are wider",
      [](Config& c) {
        const bool own_width = c.has_mlp() && (!c.experts || !c.experts->dense_layers.empty());
        c.shared_keys = SharedKeys{.layers = 1, .d_mlp = c.d_mlp + (own_width ? 3 : 0)};
      },
      [](const Config& c) { return c.shared_keys.has_value(); });
  return {"keys and values", {none, shared}};
}

Option latents() {
  const auto latent = [](std::string name, std::function<Latents(const Config&)> made,
                         std::function<bool(const Latents&, const Config&)> holds) {
    return value(
        std::move(name), [made](Config& c) { c.latent = made(c); },
        [holds](const Config& c) { return c.latent_attention() && holds(*c.latent, c); });
  };
  return {"latents",
          {value(
               "none", [](Config&) {}, [](const Config& c) { return !c.latent_attention(); }),
           latent(
               "of queries and of keys and values",
               [](const Config& c) {
                 return Latents{
                     .d_kv = 5, .d_query = 7, .d_shared_key = c.d_head / 2, .d_value = c.d_head + 1};
               },
               [](const Latents& l, const Config& c) { return l.d_query > 0 && l.d_value > c.d_head; }),
           latent(
               "of keys and values",
               [](const Config& c) {
                 return Latents{.d_kv = 4,
                                .d_shared_key = 1,
                                .d_value = std::max<std::int64_t>(1, c.d_head - 1),
                                .eps = 1e-2};
               },
               [](const Latents& l, const Config& c) { return l.d_query == 0 && l.d_value < c.d_head; })}};
}

Option short_convolutions() {
  // In the last layer, so that attention is in one before it.
  const auto conv = [](std::string name, std::int64_t kernel, bool bias) {
    return value(
        std::move(name),
        [=](Config& c) {
          c.short_conv = ShortConvolution{.kernel = kernel,
                                          .bias = bias,
                                          .layers = std::vector<bool>(static_cast<std::size_t>(c.n_layers))};
          c.short_conv->layers.back() = true;
        },
        [=](const Config& c) { return c.short_conv && c.short_conv->bias == bias; });
  };
  return {"short convolutions",
          {value(
               "none", [](Config&) {}, [](const Config& c) { return !c.short_conv; }),
           conv("of three tokens", 3, false), conv("of four tokens, with biases", 4, true)}};
}

Option delta_nets() {
  // In the first layer, so that attention or a convolution is in a later one.
  const auto net = [](std::string name, DeltaNet sizes) {
    return value(
        std::move(name),
        [=](Config& c) {
          c.delta_net = sizes;
          c.delta_net->layers.assign(static_cast<std::size_t>(c.n_layers), false);
          c.delta_net->layers.front() = true;
        },
        [=](const Config& c) {
          return c.delta_net && c.delta_net->doubled_beta == sizes.doubled_beta &&
                 (c.delta_net->n_heads == c.delta_net->n_key_heads) == (sizes.n_heads == sizes.n_key_heads);
        });
  };
  return {"gated delta nets",
          {value(
               "none", [](Config&) {}, [](const Config& c) { return !c.delta_net; }),
           net("heads of their own", {.n_key_heads = 3, .n_heads = 3, .d_key = 4, .d_value = 3, .kernel = 4}),
           net("shared keys", {.n_key_heads = 2, .n_heads = 4, .d_key = 3, .d_value = 5, .kernel = 2}),
           net("beta doubled, eps of their own", {.n_key_heads = 2,
                                                  .n_heads = 2,
                                                  .d_key = 3,
                                                  .d_value = 4,
                                                  .kernel = 3,
                                                  .doubled_beta = true,
                                                  .norm_eps = 0.1})}};
}

Option qk_norms() {
  const auto norm = [](std::string name, std::optional<QkNorm> made) {
    return value(
        std::move(name), [=](Config& c) { c.qk_norm = made; },
        [=](const Config& c) { return c.qk_norm == made; });
  };
  return {
      "q/k norm",
      {norm("none", std::nullopt), norm("per head", QkNorm{.span = QkNorm::per_head}),
       norm("per head, LayerNorm with bias",
            QkNorm{.span = QkNorm::per_head, .kind = NormKind::layer_norm, .bias = true}),
       norm("each head its own, LayerNorm", QkNorm{.span = QkNorm::each_head, .kind = NormKind::layer_norm}),
       norm("whole projection", QkNorm{.span = QkNorm::whole_projection}),
       norm("per head, after rotary", QkNorm{.span = QkNorm::per_head, .after_rotary = true}),
       value(
           "per head, but for the last layer",
           [](Config& c) {
             c.qk_norm = QkNorm{.span = QkNorm::per_head};
             c.qk_norm->layers.assign(static_cast<std::size_t>(c.n_layers), true);
             c.qk_norm->layers.back() = c.n_layers == 1;
           },
           [](const Config& c) { return c.qk_norm && !c.qk_norm->layers.empty(); })}};
}

Option query_growths() {
  return {"query growth",
          {value(
               "none", [](Config& c) { c.query_growth.reset(); },
               [](const Config& c) { return !c.query_growth; }),
           value(
               "all layers", [](Config& c) { c.query_growth = QueryGrowth{.growth = 0.7, .tokens = 2.0}; },
               [](const Config& c) { return c.query_growth && c.query_growth->layers.empty(); }),
           value(
               "the last layer, counted from 1",
               [](Config& c) {
                 c.query_growth = QueryGrowth{.growth = 0.3, .tokens = 3.0, .offset = 1};
                 c.query_growth->layers.assign(static_cast<std::size_t>(c.n_layers), false);
                 c.query_growth->layers.back() = true;
               },
               [](const Config& c) { return c.query_growth && !c.query_growth->layers.empty(); })}};
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
