#include "families/shared/deepseek_layout.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "families/shared/rope_config.h"

namespace hooked {
namespace {

using Tensors = std::vector<at::Tensor>;

// DeepseekV2RMSNorm's own: the latents' norms do not use the config's rms_norm_eps.
constexpr double kLatentEps = 1e-6;
constexpr std::int64_t kMostShared = 1 << 12;

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

}  // namespace

std::string one_of(HfConfig& hf, std::string_view key, std::initializer_list<std::string_view> known) {
  const std::string value = hf.json().text_or(key, *known.begin());
  if (std::ranges::find(known, value) == known.end()) {
    hf.json().refuse(key, fmt::format("is not supported; expected {}", fmt::join(known, " or ")));
  }
  return value;
}

void read_deepseek_experts(HfConfig& hf, ModelConfig& c, const DeepseekExperts& keys) {
  const ConfigReader& json = hf.json();
  read_experts(hf, c,
               {.n_experts = keys.n_experts,
                .n_experts_alias = keys.n_experts_alias,
                .n_experts_fallback = keys.n_experts_fallback,
                .per_token_fallback = keys.per_token_fallback});
  const std::int64_t shared = json.integer_or(keys.shared, keys.shared_fallback);
  if (shared < 0 || shared > kMostShared) {
    json.refuse(keys.shared, fmt::format("is out of range; expected 0 to {}", kMostShared));
  }
  c.experts->d_shared = shared * hf.count("moe_intermediate_size");
  const std::int64_t dense = json.integer_or("first_k_dense_replace", keys.dense_fallback);
  if (dense < 0) json.refuse("first_k_dense_replace", "is negative; expected a number of layers");
  if (json.integer_or("moe_layer_freq", 1) != 1) {
    hf.note("moe_layer_freq has no effect: transformers does not read it for this family");
  }
  json.ignore(
      {"ep_size", "seq_aux", "num_nextn_predict_layers", "num_mtp_layers"});  // of training, or of more
  const bool named = keys.named_layers && json.has("mlp_layer_types");
  set_expert_width(
      hf, c, "moe_intermediate_size",
      named ? dense_layers_by_name(hf, c) : flag_layers(c, [dense](std::int64_t l) { return l < dense; }));
}

void require_one_dense_layer(const HfConfig& hf) {
  const ConfigReader& json = hf.json();
  constexpr std::string_view kDense = "first_k_dense_replace";
  if (json.has("mlp_layer_types") || json.integer_or(kDense, 1) == 1) return;
  json.refuse(kDense, "is not what transformers reads for this family; expected 1, or mlp_layer_types");
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

void read_expert_groups(HfConfig& hf, ModelConfig& config, GroupScore score,
                        const GroupFallbacks& fallbacks) {
  const ConfigReader& json = hf.json();
  const auto count_or = [&](std::string_view key, std::int64_t fallback) {
    return json.has(key) || json.is_null(key) || fallback == 0 ? hf.count(key) : fallback;
  };
  const std::int64_t groups = count_or("n_group", fallbacks.n_groups);
  const std::int64_t open = count_or("topk_group", fallbacks.groups_per_token);
  if (!config.experts) return;  // every layer has an ordinary MLP
  Experts& e = *config.experts;
  const std::int64_t least = score == GroupScore::best_two ? 2 : 1;
  if (e.n_experts % groups != 0 || (groups > 1 && e.n_experts / groups < least)) {
    json.refuse("n_group", fmt::format("does not divide n_routed_experts = {} into groups of at least {}; "
                                       "expected a divisor of it",
                                       e.n_experts, least));
  }
  const std::int64_t needed = (e.per_token + e.n_experts / groups - 1) / (e.n_experts / groups);
  if (open < needed || open > groups) {
    json.refuse("topk_group", fmt::format("is out of range; expected {} to n_group = {}, for {} experts of a "
                                          "token",
                                          needed, groups, e.per_token));
  }
  e.n_groups = groups;
  e.groups_per_token = open;
  if (groups > 1) e.group_score = score;
}

void set_sigmoid_router(ModelConfig& config, bool renormalised) {
  Experts& e = *config.experts;
  e.router = RouterKind::sigmoid_then_choose;
  e.router_in_float32 = e.choice_bias = true;
  e.renormalised = renormalised;
  if (renormalised) e.added_to_sum = kAddedToSum;
  config.least_dtypes.choice_bias = config.least_dtypes.router = KeptInFloat32::in_half;
}

void read_sigmoid_router(HfConfig& hf, ModelConfig& config, bool renormalised,
                         const GroupFallbacks& fallbacks) {
  const ConfigReader& json = hf.json();
  one_of(hf, "scoring_func", {"sigmoid", "noaux_tc"});  // dots.llm1 has the latter there
  one_of(hf, "topk_method", {"noaux_tc"});
  constexpr std::string_view kRenormalised = "norm_topk_prob";
  const bool divides = !json.is_null(kRenormalised) && json.boolean_or(kRenormalised, renormalised);
  if (config.experts) set_sigmoid_router(config, divides);
  read_expert_groups(hf, config, GroupScore::best_two, fallbacks);
}

double routed_scale(const HfConfig& hf, double fallback) {
  return hf.positive_or("routed_scaling_factor", fallback);
}

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

ModelConfig read_indexed_config(HfConfig& hf, const DeepseekKeys& keys, const GroupFallbacks& groups) {
  const ConfigReader& json = hf.json();
  const std::int64_t indexed = json.has("index_topk") ? hf.count("index_topk") : 2048;
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

void add_deepseek_mixture(Recipes& r, const ModelConfig& config, double routed_scale,
                          std::string_view bias_alias) {
  r.mixture({}, routed_scale);
  if (config.experts->choice_bias) {
    TensorRecipe& bias = r.make("mlp.choice_bias", {"mlp.gate.e_score_correction_bias"},
                                [](const Tensors& stored) { return stored[0]; });
    if (!bias_alias.empty()) r.or_named(bias, bias_alias);
  }
  if (config.experts->d_shared > 0) r.shared_expert("mlp.shared_experts");
}

std::vector<TensorRecipe> deepseek_recipes(const ModelConfig& config, double routed_scale) {
  return llama_stack(config, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_latent_attention(r, config);
    r.norm("ln2", "post_attention_layernorm");
    if (!config.mixture(r.layer())) return add_llama_mlp(r, config);
    add_deepseek_mixture(r, config, routed_scale);
  });
}

}  // namespace hooked
