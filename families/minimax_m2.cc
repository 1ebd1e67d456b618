// MiniMax-M2 (MiniMax 2025): one norm over all heads of queries and of keys, partial rotary, and experts
// chosen by a sigmoid and a bias.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>

#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked::families::minimax_m2 {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return mixture_recipes(c, [](Recipes& r) {
    r.mixture(mixtral_names());
    TensorRecipe& bias = r.make("mlp.choice_bias", {"block_sparse_moe.e_score_correction_bias"},
                                [](const std::vector<at::Tensor>& stored) { return stored[0]; });
    r.or_named(bias, "mlp.e_score_correction_bias");
  });
}

// Keys of the trainer's own code, which has more variants than the published models and transformers.
void refuse_other_variants(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  const auto only = [&](std::string_view key, bool usual, std::string_view expected) {
    if (usual) return;
    json.refuse(
        key, fmt::format("is not supported, for transformers does not read it for this family; expected {}",
                         expected));
  };
  constexpr std::string_view kKinds = "attn_type_list";
  if (json.has(kKinds)) {
    only(kKinds, std::ranges::all_of(json.integers(kKinds), [](auto kind) { return kind == 1; }), "only 1");
  }
  only("use_qk_norm", json.boolean_or("use_qk_norm", true), "true");
  only("qk_norm_type", json.text_or("qk_norm_type", "per_layer") == "per_layer", "per_layer");
  only("scoring_func", json.text_or("scoring_func", "sigmoid") == "sigmoid", "sigmoid");
  only("use_routing_bias", json.boolean_or("use_routing_bias", true), "true");
  for (const auto key :
       {"layernorm_full_attention_alpha", "layernorm_full_attention_beta", "layernorm_linear_attention_alpha",
        "layernorm_linear_attention_beta", "layernorm_mlp_alpha", "layernorm_mlp_beta"}) {
    only(key, json.number_or(key, 1.0) == 1.0, "1");
  }
  hf.require_unset({"shared_intermediate_size", "sliding_window"});
  json.ignore({"shared_moe_mode"});
}

// Published files have the number of rotated dimensions instead of their share.
std::optional<double> turned_share(HfConfig& hf, const ModelConfig& c) {
  constexpr std::string_view kKey = "rotary_dim";
  if (!hf.json().has(kKey)) return 1.0;
  const std::int64_t turned = hf.json().integer(kKey);
  if (turned < 0 || turned % 2 != 0 || turned > c.d_head)
    hf.json().refuse(kKey, fmt::format("is out of range; expected an even number from 0 to {}", c.d_head));
  return static_cast<double>(turned) / static_cast<double>(c.d_head);
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 196608, .n_kv_heads = 8, .d_head = 128});
  c.qk_norm = QkNorm{.span = QkNorm::whole_projection};
  refuse_other_variants(hf);
  read_experts(hf, c, {.n_experts_fallback = 256, .per_token_fallback = 8});
  c.experts->router = RouterKind::sigmoid_then_choose;
  c.experts->choice_bias = c.experts->renormalised = true;
  read_rope(hf, c, {.theta = 5e6, .partial = turned_share(hf, c)});
  return c;
}

}  // namespace

extern const Family kMinimaxM2 = llama_family("minimax_m2", read, recipes);

}  // namespace hooked::families::minimax_m2
