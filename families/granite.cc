// Granite (IBM) and its derivatives.
#include <cmath>
#include <vector>

#include "families/shared/expert_config.h"
#include "families/shared/hf_config.h"
#include "families/shared/llama_layout.h"
#include "families/shared/recipes.h"
#include "families/shared/rope_config.h"

namespace hooked::families::granite {
namespace {

/// The MLPs of a Granite with mixtures of experts.
struct GraniteMlps {
  std::int64_t d_shared = 0;         ///< width of the MLP in addition to the experts; 0: there is none
  bool may_have_no_experts = false;  ///< whether 0 experts mean that there is only this MLP
};

// Granite's multipliers on embedding, scores, logits and sublayers' outputs.
void read_granite_multipliers(HfConfig& hf, ModelConfig& config) {
  config.embedding_scale = hf.positive_or("embedding_multiplier", 1.0);
  config.attn_scale = 1.0 / hf.positive_or("attention_multiplier", 1.0);
  config.unembedding->scale = 1.0 / hf.positive_or("logits_scaling", 1.0);
  hf.comes_from("attn_scale", hf.json().where("attention_multiplier"));
  hf.comes_from("unembedding.scale", hf.json().where("logits_scaling"));
  hf.set_output_factor(hf.positive_or("residual_multiplier", 1.0));
}

// The config of a Granite with mixtures of experts, without positions.
ModelConfig read_granite_mixture_config(HfConfig& hf, const GraniteMlps& mlps) {
  const ConfigReader& json = hf.json();
  constexpr std::string_view kExperts = "num_local_experts";
  ModelConfig c = read_llama_config(hf);
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  if (mlps.may_have_no_experts && json.has(kExperts) && json.integer(kExperts) == 0) {
    c.d_mlp = mlps.d_shared;
    json.ignore({"num_experts_per_tok"});
  } else {
    read_experts(hf, c, {.n_experts_fallback = 8, .per_token_fallback = 2});
    c.experts->router = RouterKind::choose_then_softmax;
    c.experts->d_shared = mlps.d_shared;
  }
  read_granite_multipliers(hf, c);
  return c;
}

// Its tensors: experts under `block_sparse_moe`, the additional MLP under `shared_mlp`.
std::vector<TensorRecipe> granite_mixture_recipes(const ModelConfig& config, const HfConfig& hf) {
  const double residual = hf.output_factor();
  return llama_stack(config, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, config, residual);
    r.norm("ln2", "post_attention_layernorm");
    if (!config.experts) {
      r.fused_gate_up("shared_mlp.input_linear");
      r.mlp_out("shared_mlp.output_linear", residual);
      return;
    }
    r.mixture({.router = "block_sparse_moe.router.layer.weight",
               .router_alias = "block_sparse_moe.router.weight",
               .expert = "",
               .gate_up = "block_sparse_moe.input_linear.weight",
               .down = "block_sparse_moe.output_linear.weight",
               .gate_up_alias = "block_sparse_moe.experts.gate_up_proj",
               .down_alias = "block_sparse_moe.experts.down_proj"},
              residual);
    if (config.experts->d_shared > 0) {
      r.fused_shared_expert("shared_mlp.input_linear", "shared_mlp.output_linear", residual);
    }
  });
}

// Granite 3 (Granite Team 2024): Llama with multipliers on embedding, sublayers, scores and logits.

std::vector<TensorRecipe> granite_recipes(const ModelConfig& c, const HfConfig& hf) {
  return scaled_llama_recipes(c, hf.output_factor());
}

ModelConfig read_granite(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf);
  read_llama_biases(hf, c);
  read_granite_multipliers(hf, c);
  read_rope(hf, c);
  return c;
}

// Granite with mixtures of experts (Granite Team 2024): its multipliers, and a softmax over the chosen
// logits.
ModelConfig read_granitemoe(HfConfig& hf) {
  ModelConfig c = read_granite_mixture_config(hf, {});
  read_rope(hf, c);
  return c;
}

// Granite 4 (Granite Team 2025) if every layer is attention: with or without experts in addition to its MLP,
// with rotary or without positions.

// A file that does not say it has only state-space layers.
void require_attention(const HfConfig& hf, const ModelConfig& config) {
  const ConfigReader& json = hf.json();
  const std::string_view key = json.first_of({"layer_types", "layers_block_type"});
  const std::vector<std::string> types = json.has(key) ? json.texts(key) : std::vector<std::string>{"mamba"};
  for (const std::string& type : types) {
    if (type != "attention" && type != "full_attention") {
      json.refuse(key,
                  "has state-space layers (Mamba 2) or others that are not supported; expected attention for "
                  "every layer");
    }
  }
  if (static_cast<std::int64_t>(types.size()) != config.n_layers) {
    json.refuse(key, "does not name the kind of every layer; expected an entry for each");
  }
}

ModelConfig read_granitemoehybrid(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  constexpr std::string_view kShared = "shared_intermediate_size";
  constexpr std::string_view kPositions = "position_embedding_type";
  ModelConfig c =
      read_granite_mixture_config(hf, {.d_shared = hf.count_or(kShared, 1024), .may_have_no_experts = true});
  require_attention(hf, c);
  const std::string positions = json.text_or(kPositions, "nope");
  if (positions == "rope") {
    read_rope(hf, c);
    return c;
  }
  if (positions != "nope") {
    json.refuse(kPositions, "is not a kind of positions of this family; expected rope, nope or null");
  }
  c.positions = NoPositions{};
  json.ignore({"rope_theta", "rope_scaling", "rope_parameters"});
  return c;
}

// Granite with mixtures of experts and an additional MLP that sees every token (Granite Team 2024).
ModelConfig read_granitemoeshared(HfConfig& hf) {
  constexpr std::string_view kShared = "shared_intermediate_size";
  const bool none = hf.json().integer_or(kShared, 0) == 0;
  ModelConfig c = read_granite_mixture_config(hf, {.d_shared = none ? 0 : hf.count(kShared)});
  read_rope(hf, c);
  return c;
}

// HyperCLOVA X SEED Think (NAVER Cloud 2025): Granite with a norm after each sublayer; logits are multiplied,
// while Granite divides them.

std::vector<TensorRecipe> hyperclovax_recipes(const ModelConfig& c, const HfConfig& hf) {
  const double residual = hf.output_factor();
  if (c.norm_place == NormPlace::pre) return scaled_llama_recipes(c, residual);
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, c);
    r.scaled_norm("ln1_post", "post_norm1", residual);
    r.norm("ln2", "post_attention_layernorm");
    add_llama_mlp(r, c);
    r.scaled_norm("ln2_post", "post_norm2", residual);
  });
}

ModelConfig read_hyperclovax(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf);
  read_llama_biases(hf, c);
  read_granite_multipliers(hf, c);
  if (!json.has("attention_multiplier")) {  // as transformers would write it
    c.attn_scale = 1.0 / std::pow(static_cast<double>(c.d_head), -0.5);
  }
  c.unembedding->scale = hf.positive_or("logits_scaling", 1.0);
  if (json.boolean_or("use_post_norm", true)) c.norm_place = NormPlace::both;
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kGranite = llama_family("granite", read_granite, granite_recipes);
extern const Family kGranitemoe = llama_family("granitemoe", read_granitemoe, granite_mixture_recipes);
extern const Family kGranitemoehybrid =
    llama_family("granitemoehybrid", read_granitemoehybrid, granite_mixture_recipes);
extern const Family kGranitemoeshared =
    llama_family("granitemoeshared", read_granitemoeshared, granite_mixture_recipes);
extern const Family kHyperclovax = llama_family("hyperclovax", read_hyperclovax, hyperclovax_recipes);

}  // namespace hooked::families::granite
