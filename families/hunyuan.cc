// Hunyuan (Tencent).
#include <algorithm>
#include <vector>

#include "families/shared/expert_config.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::hunyuan {
namespace {

// Hunyuan (Tencent 2025): Llama with norms of queries and keys after rotary.
ModelConfig read_hunyuan_v1_dense(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.eps = 1e-5});
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head, .after_rotary = true};
  read_rope(hf, c, {.fixed_alpha = true});
  return c;
}

std::vector<TensorRecipe> hunyuan_recipes(const ModelConfig& config) {
  return llama_stack(config, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    r.queries("self_attn.q_proj");
    r.keys("self_attn.k_proj");
    r.values("self_attn.v_proj");
    r.qk_norm("self_attn.query_layernorm", "self_attn.key_layernorm");
    r.attention_out("self_attn.o_proj");
    r.norm("ln2", "post_attention_layernorm");
    if (!config.experts) return add_llama_mlp(r, config);
    r.mixture({.router = "mlp.gate.wg.weight"});
    r.shared_expert("mlp.shared_mlp");
  });
}

// Hunyuan A13B (Tencent 2025): Hunyuan's attention, and in every layer a mixture and a shared expert.

// A number, or one for each layer, which must then be equal.
std::int64_t of_all_layers(const HfConfig& hf, const ModelConfig& c, std::string_view key,
                           std::int64_t fallback) {
  const ConfigReader& json = hf.json();
  if (!json.holds_list(key)) return hf.count_or(key, fallback);
  const std::vector<std::int64_t> numbers = json.integers(key);
  const bool alike = !numbers.empty() && static_cast<std::int64_t>(numbers.size()) >= c.n_layers &&
                     std::ranges::all_of(numbers, [&](auto n) { return n == numbers.front(); });
  if (!alike || numbers.front() < 1) {
    json.refuse(key, "is not the same in all layers, which is not supported; expected one number");
  }
  return numbers.front();
}

ModelConfig read_hunyuan_v1_moe(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_hunyuan_v1_dense(hf);
  Experts& e = c.experts.emplace();
  e.n_experts = of_all_layers(hf, c, json.first_of({"num_experts", "num_local_experts"}), 1);
  e.per_token = of_all_layers(hf, c, json.first_of({"moe_topk", "num_experts_per_tok"}), 1);
  hf.comes_from("experts.n_experts", json.where("num_experts"));
  hf.comes_from("experts.per_token", json.where("moe_topk"));
  e.d_expert = c.d_mlp;
  e.d_shared = c.d_mlp;
  e.renormalised = e.router_in_float32 = true;
  c.least_dtypes.router = KeptInFloat32::in_half;
  // Of the trainer's own code, in which they may state what transformers assumes.
  const auto only = [&](std::string_view key, std::int64_t expected) {
    if (json.has(key) && of_all_layers(hf, c, key, expected) != expected)
      json.refuse(key,
                  "is not what transformers does for this family; expected the widths and counts of "
                  "intermediate_size and one shared expert");
  };
  only("moe_intermediate_size", c.d_mlp);
  only("num_shared_expert", 1);
  hf.require_unset({"moe_layer_num_skipped", "use_cla", "use_mla"});
  json.ignore({"use_mixed_mlp_moe", "moe_drop_tokens", "moe_random_routing_dropped_token", "use_qk_norm",
               "attention_head_dim"});
  return c;
}

}  // namespace

extern const Family kHunyuanV1Dense =
    llama_family("hunyuan_v1_dense", read_hunyuan_v1_dense, hunyuan_recipes);
extern const Family kHunyuanV1Moe = llama_family("hunyuan_v1_moe", read_hunyuan_v1_moe, hunyuan_recipes);

}  // namespace hooked::families::hunyuan
