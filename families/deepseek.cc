// DeepSeek's models with latent attention, and GLM's of the same layout.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "families/shared/deepseek_mixture.h"
#include "families/shared/rope_config.h"

namespace hooked::families::deepseek {
namespace {

using Tensors = std::vector<at::Tensor>;

// DeepseekV2RMSNorm's own: the latents' norms do not use the config's rms_norm_eps.
constexpr double kLatentEps = 1e-6;

/// The config of a decoder with latent attention and mixtures under the keys that DeepSeek's families share,
/// without biases, positions and the router's rule.
struct DeepseekKeys {
  DeepseekExperts experts;
  std::int64_t n_ctx_fallback;       ///< of `max_position_embeddings`
  std::int64_t n_kv_heads_fallback;  ///< of `num_key_value_heads`; 0: the number of heads
  double eps_fallback = 1e-6;        ///< of `rms_norm_eps`
};

Latents read_latents(HfConfig& hf, std::int64_t shared_key) {
  const ConfigReader& json = hf.json();
  constexpr std::string_view kQuery = "q_lora_rank";
  Latents latent{.d_kv = hf.count("kv_lora_rank"),
                 .d_shared_key = shared_key,
                 .d_value = hf.count("v_head_dim"),
                 .eps = kLatentEps};
  if (!json.is_null(kQuery)) latent.d_query = hf.count(kQuery);
  return latent;
}

std::int64_t rotary_width(HfConfig& hf) {
  constexpr std::string_view kKey = "qk_rope_head_dim";
  const std::int64_t width = hf.count(kKey);
  if (width % 2 != 0) hf.json().refuse(kKey, "is odd; expected an even number of dimensions to turn");
  return width;
}

// In families with an indexer, every layer has it.
void require_indexed_layers(HfConfig& hf) {
  constexpr std::string_view kKey = "layer_types";
  if (!hf.json().has(kKey)) return;
  const std::vector<std::string> types = hf.json().texts(kKey);
  if (!std::ranges::all_of(types, [](const std::string& type) { return type == "indexed_attention"; })) {
    hf.json().refuse(kKey, "has a kind of layer that is not supported; expected indexed_attention");
  }
}

// One of the parts that are stacked in `stored`, and make up all of it.
at::Tensor part_of(const at::Tensor& stored, const std::vector<std::int64_t>& sizes, std::size_t which) {
  return stored.split_with_sizes(sizes, 0)[which];
}

// The same for each head's rows, as [head, in, part].
at::Tensor heads_part_of(const at::Tensor& stored, std::int64_t heads, const std::vector<std::int64_t>& sizes,
                         std::size_t which) {
  return stored.unflatten(0, {heads, -1}).split_with_sizes(sizes, 1)[which].transpose(1, 2);
}

ModelConfig read_deepseek_config(HfConfig& hf, const DeepseekKeys& keys) {
  const ConfigReader& json = hf.json();
  const std::int64_t turned = rotary_width(hf);
  ModelConfig c = hf.sizes({.n_kv_heads_fallback = keys.n_kv_heads_fallback,
                            .d_head = "",
                            .d_head_fallback = hf.count("qk_nope_head_dim") + turned,
                            .n_ctx_fallback = keys.n_ctx_fallback},
                           false);
  json.ignore({"head_dim", "qk_head_dim"});  // sums that transformers writes in addition to the parts
  if (c.grouped_query()) {
    json.refuse("num_key_value_heads",
                fmt::format("is not num_attention_heads = {}; expected the same number, or no such key: "
                            "every head has keys and values of its own",
                            c.n_heads));
  }
  c.latent = read_latents(hf, turned);
  c.norm = c.final_norm = NormKind::rms_norm;
  c.eps = hf.positive_or("rms_norm_eps", keys.eps_fallback);
  c.mlp = MlpKind::gated;
  c.activation = hf.activation("hidden_act", "silu");

  read_deepseek_experts(hf, c, keys.experts);
  return c;
}

// Rotary at the end of each head, with YaRN's magnitude of scores (`mscale_all_dim`).
void read_deepseek_rope(HfConfig& hf, ModelConfig& config, bool adjacent_pairs) {
  // The rotated part has a width of its own.
  constexpr std::string_view kShare = "partial_rotary_factor";
  for (const ConfigReader& holder : {hf.json(), rope_group(hf.json())}) {
    if (holder.number_or(kShare, 1.0) != 1.0)
      holder.refuse(kShare, "is not honoured by this family; expected 1, or no such key");
  }
  read_rope(hf, config, {.adjacent_pairs = adjacent_pairs});
  config.rotary()->dim = config.latent->d_shared_key;
  config.rotary()->at_end = true;
  const auto* yarn = std::get_if<YarnScaling>(&config.rotary()->scaling);
  if (yarn == nullptr) return;
  const ConfigReader group = rope_group(hf.json());
  const double weight = group.number_or("mscale_all_dim", 0.0);
  hf.comes_from("attn_scale", group.where("mscale_all_dim"));
  if (weight == 0.0) return;
  const double magnitude = yarn_magnitude(yarn->factor, weight);
  config.attn_scale /= magnitude * magnitude;
}

// DeepSeek-V3.2 and its successors: V3 with an indexer that lets a query attend to the `index_topk` keys
// that it scores highest. Longer sequences than that are refused: in shorter ones every key is chosen, so
// that attention is V3's and the indexer has no effect.
ModelConfig read_indexed_config(HfConfig& hf, const DeepseekKeys& keys, const GroupFallbacks& groups) {
  const ConfigReader& json = hf.json();
  const std::int64_t indexed = hf.count_or("index_topk", 2048);
  json.ignore({"index_topk", "index_head_dim", "index_n_heads"});
  ModelConfig c = read_deepseek_config(hf, keys);
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  if (!c.query_latent()) json.refuse("q_lora_rank", "is null; expected the width of the queries' latent");
  if (json.boolean_or("mlp_bias", false)) {
    hf.note("mlp_bias has no effect: transformers does not read it for this family");
  }
  if (!json.boolean_or("rope_interleave", true)) {
    json.refuse("rope_interleave",
                "is not what transformers does for this family; expected true, or no such key");
  }
  require_indexed_layers(hf);
  read_sigmoid_router(hf, c, /*renormalised=*/true, groups);
  read_deepseek_rope(hf, c, /*adjacent_pairs=*/true);
  if (indexed < c.n_ctx) {
    hf.note(
        fmt::format("sequences of more than index_topk = {} tokens (of max_position_embeddings = {}) are not "
                    "read: beyond it attention leaves keys out, which is not supported",
                    indexed, c.n_ctx));
    c.n_ctx = indexed;
    hf.comes_from("n_ctx", json.where("index_topk"));
  }
  return c;
}

// `self_attn` with its latents.
void add_latent_attention(Recipes& r, const ModelConfig& config) {
  using Sizes = std::vector<std::int64_t>;
  const Latents& latent = *config.latent;
  // A reader of the stream: a part of a linear map, and of its bias.
  const auto add_reader = [&](const std::string& ours, const std::string& theirs, const Sizes& sizes,
                              std::size_t which) {
    r.make("attn.W_" + ours, {theirs + ".weight"},
           [=](const Tensors& stored) { return part_of(stored[0], sizes, which).t(); });
    if (!config.qkv_bias) return;
    r.make("attn.b_" + ours, {theirs + ".bias"},
           [=](const Tensors& stored) { return part_of(stored[0], sizes, which); });
  };
  const auto add_heads = [&](const std::string& ours, const std::string& theirs, const Sizes& sizes,
                             std::size_t which) {
    r.make(ours, {theirs + ".weight"}, [=, h = config.n_heads](const Tensors& stored) {
      return heads_part_of(stored[0], h, sizes, which);
    });
  };
  if (latent.d_query > 0) {
    add_reader("DQ", "self_attn.q_a_proj", {latent.d_query}, 0);
    r.copy("attn.q_latent_norm.w", "self_attn.q_a_layernorm.weight");
    add_heads("attn.W_UQ", "self_attn.q_b_proj", {config.d_head}, 0);
  } else {
    add_heads("attn.W_Q", "self_attn.q_proj", {config.d_head}, 0);
    if (config.qkv_bias) {  // their biases are only in the maps to the latent and the shared key
      r.make("attn.b_Q", {}, [h = config.n_heads, d = config.d_head, dtype = config.dtype](const Tensors&) {
        return at::zeros({h, d}, dtype);
      });
    }
  }
  const Sizes read = {latent.d_kv, latent.d_shared_key}, made = {config.own_key_dim(), latent.d_value};
  add_reader("DKV", "self_attn.kv_a_proj_with_mqa", read, 0);
  add_reader("KR", "self_attn.kv_a_proj_with_mqa", read, 1);
  r.copy("attn.kv_latent_norm.w", "self_attn.kv_a_layernorm.weight");
  add_heads("attn.W_UK", "self_attn.kv_b_proj", made, 0);
  add_heads("attn.W_UV", "self_attn.kv_b_proj", made, 1);
  r.attention_out("self_attn.o_proj");
}

std::vector<TensorRecipe> deepseek_recipes(const ModelConfig& config, const HfConfig& hf) {
  return llama_stack(config, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_latent_attention(r, config);
    r.norm("ln2", "post_attention_layernorm");
    if (!config.mixture(r.layer())) return add_llama_mlp(r, config);
    add_deepseek_mixture(r, config, hf);
  });
}

// DeepSeek-V2 (DeepSeek-AI 2024): latent attention, and experts chosen by their softmax, optionally from a
// few groups.
ModelConfig read_deepseek_v2(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c =
      read_deepseek_config(hf, {.experts = {.n_experts_alias = "num_experts", .shared_fallback = 2},
                                .n_ctx_fallback = 2048,
                                .n_kv_heads_fallback = 0});
  read_llama_biases(hf, c);
  one_of(hf, "scoring_func", {"softmax"});
  if (one_of(hf, "topk_method", {"greedy", "group_limited_greedy"}) == "group_limited_greedy") {
    read_expert_groups(hf, c, GroupScore::best);
  } else {
    json.ignore({"n_group", "topk_group"});
  }
  if (json.boolean_or("norm_topk_prob", false)) {
    hf.note("norm_topk_prob has no effect: transformers does not read it for this family");
  }
  if (c.experts) {
    c.experts->router_in_float32 = true;
    c.least_dtypes.router = KeptInFloat32::in_half;
  }
  read_deepseek_rope(hf, c, /*adjacent_pairs=*/true);
  return c;
}

// DeepSeek-V3 and R1 (DeepSeek-AI 2024), Moonlight: latent attention, and experts chosen by a sigmoid and a
// bias from a few groups.
ModelConfig read_deepseek_v3(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_deepseek_config(
      hf, {.experts = {.shared_fallback = 1, .dense_fallback = 3, .routed_scale_fallback = 2.5},
           .n_ctx_fallback = 4096,
           .n_kv_heads_fallback = 128});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  read_sigmoid_router(hf, c, /*renormalised=*/true, {.n_groups = 8, .groups_per_token = 4});
  // transformers treats null as false.
  read_deepseek_rope(hf, c, !json.is_null("rope_interleave") && json.boolean_or("rope_interleave", true));
  return c;
}

// The mixtures of models with an indexer.
constexpr DeepseekExperts kIndexedExperts{.per_token_fallback = 8,
                                          .shared_fallback = 1,
                                          .dense_fallback = 3,
                                          .named_layers = true,
                                          .routed_scale_fallback = 2.5};

// DeepSeek-V3.2 (DeepSeek-AI 2025): V3 with an indexer, read if that leaves out no keys.
ModelConfig read_deepseek_v32(HfConfig& hf) {
  return read_indexed_config(
      hf, {.experts = kIndexedExperts, .n_ctx_fallback = 163840, .n_kv_heads_fallback = 128},
      {.n_groups = 8, .groups_per_token = 4});
}

// GLM 4.7 Flash (Z.ai 2026): DeepSeek-V3 under other defaults.
ModelConfig read_glm4_moe_lite(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  require_one_dense_layer(hf);
  const DeepseekExperts experts{.per_token_fallback = 4,
                                .shared_fallback = 1,
                                .dense_fallback = 1,
                                .named_layers = true,
                                .routed_scale_fallback = 1.8};
  ModelConfig c = read_deepseek_config(
      hf, {.experts = experts, .n_ctx_fallback = 202752, .n_kv_heads_fallback = 20, .eps_fallback = 1e-5});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  read_sigmoid_router(hf, c, /*renormalised=*/true, {.n_groups = 1, .groups_per_token = 1});
  read_deepseek_rope(hf, c, json.boolean_or("rope_interleave", true));
  return c;
}

// GLM-5 (Z.ai 2026): DeepSeek-V3.2 whose layers may share the index of one of them, read if the index leaves
// out no keys.
ModelConfig read_glm_moe_dsa(HfConfig& hf) {
  // They say which layers index, and how.
  hf.json().ignore({"indexer_types", "index_topk_pattern", "index_topk_freq", "index_skip_topk_offset",
                    "indexer_rope_interleave"});
  return read_indexed_config(
      hf,
      {.experts = kIndexedExperts, .n_ctx_fallback = 202752, .n_kv_heads_fallback = 64, .eps_fallback = 1e-5},
      {.n_groups = 1, .groups_per_token = 1});
}

}  // namespace

extern const Family kDeepseekV2 = llama_family("deepseek_v2", read_deepseek_v2, deepseek_recipes);
extern const Family kDeepseekV3 = llama_family("deepseek_v3", read_deepseek_v3, deepseek_recipes);
extern const Family kDeepseekV32 = llama_family("deepseek_v32", read_deepseek_v32, deepseek_recipes);
extern const Family kGlm4MoeLite = llama_family("glm4_moe_lite", read_glm4_moe_lite, deepseek_recipes);
extern const Family kGlmMoeDsa = llama_family("glm_moe_dsa", read_glm_moe_dsa, deepseek_recipes);

}  // namespace hooked::families::deepseek
