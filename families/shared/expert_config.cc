#include "families/shared/expert_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hooked {

void read_experts(HfConfig& hf, ModelConfig& config, const ExpertKeys& keys) {
  const ConfigReader& json = hf.json();
  const std::string_view name = json.first_of({keys.n_experts, keys.n_experts_alias});
  const auto count_or = [&](std::string_view key, std::int64_t fallback) {
    return json.has(key) || fallback == 0 ? hf.count(key) : fallback;
  };
  Experts& e = config.experts.emplace();
  e.n_experts = count_or(name, keys.n_experts_fallback);
  hf.comes_from("experts.n_experts", json.where(name));
  if (json.has(keys.n_experts) && !keys.n_experts_alias.empty() && json.has(keys.n_experts_alias) &&
      hf.count(keys.n_experts_alias) != e.n_experts) {
    json.refuse(keys.n_experts_alias,
                fmt::format("is another number than {} = {}; expected one of the two, or the same number",
                            keys.n_experts, e.n_experts));
  }
  json.ignore({keys.n_experts, keys.n_experts_alias});
  e.per_token = count_or(keys.per_token, keys.per_token_fallback);
  if (e.per_token > e.n_experts) {
    json.refuse(keys.per_token, fmt::format("is more than there are experts; expected 1 to {}", e.n_experts));
  }
  e.d_expert = config.d_mlp;
}

void set_expert_width(HfConfig& hf, ModelConfig& config, std::string_view key, LayerFlags dense) {
  Experts& e = *config.experts;
  e.d_expert = hf.count(key);
  e.dense_layers = none_if_all_false(std::move(dense));
  if (e.dense_layers.empty()) {
    config.d_mlp = e.d_expert;
  } else if (std::ranges::find(e.dense_layers, false) == e.dense_layers.end()) {
    config.experts.reset();  // no layer is a mixture
  }
}

LayerFlags dense_layers_by_name(const HfConfig& hf, const ModelConfig& config) {
  constexpr std::string_view kKey = "mlp_layer_types";
  LayerFlags dense;
  for (const std::string& type : hf.json().texts(kKey)) {
    if (type != "dense" && type != "sparse") {
      hf.json().refuse(kKey, "has a kind of MLP that is not supported; expected dense and sparse");
    }
    dense.push_back(type == "dense");
  }
  if (static_cast<std::int64_t>(dense.size()) != config.n_layers) {
    hf.json().refuse(kKey, fmt::format("has {} entries; expected one for each of the {} layers", dense.size(),
                                       config.n_layers));
  }
  return dense;
}

MixtureNames mixtral_names() {
  return {.router = "block_sparse_moe.gate.weight",
          .router_alias = "mlp.gate.weight",
          .expert = "block_sparse_moe.experts.{}.",
          .gate = "w1",
          .in = "w3",
          .out = "w2"};
}

std::vector<TensorRecipe> mixture_recipes(const ModelConfig& config,
                                          const std::function<void(Recipes&)>& add_mixture, double scale) {
  return llama_stack(config, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, config, scale);
    r.norm("ln2", "post_attention_layernorm");
    if (config.mixture(r.layer())) {
      add_mixture(r);
    } else {
      add_llama_mlp(r, config, scale);
    }
  });
}

std::vector<TensorRecipe> usual_mixture_recipes(const ModelConfig& config) {
  return mixture_recipes(config, [](Recipes& r) { r.mixture({}); });
}

}  // namespace hooked
