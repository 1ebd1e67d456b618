#include "families/shared/deepseek_mixture.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace hooked {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kMostShared = 1 << 12;

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
  hf.set_output_factor(hf.positive_or(keys.routed_scale, keys.routed_scale_fallback));
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

void add_deepseek_mixture(Recipes& r, const ModelConfig& config, const HfConfig& hf,
                          std::string_view bias_alias) {
  r.mixture({}, hf.output_factor());
  if (config.experts->choice_bias) {
    TensorRecipe& bias = r.make("mlp.choice_bias", {"mlp.gate.e_score_correction_bias"},
                                [](const Tensors& stored) { return stored[0]; });
    if (!bias_alias.empty()) r.or_named(bias, bias_alias);
  }
  if (config.experts->d_shared > 0) r.shared_expert("mlp.shared_experts");
}

std::vector<TensorRecipe> deepseek_mixture_recipes(const ModelConfig& config, const HfConfig& hf) {
  return mixture_recipes(config, [&](Recipes& r) { add_deepseek_mixture(r, config, hf); });
}

}  // namespace hooked
