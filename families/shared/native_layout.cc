#include "families/shared/native_layout.h"

#include <string>
#include <utility>

#include "core/weight_table.h"

namespace hooked {
namespace {

// HookedEncoder's name for what HookedTransformer and this engine call by one name.
std::string encoder_spelling(const std::string& name, const ModelConfig& config) {
  return config.embedding_sum_norm && (name == "embed.W_E" || name == "pos_embed.W_pos") ? "embed." + name
                                                                                         : std::string();
}

}  // namespace

std::vector<TensorRecipe> native_recipes(const ModelConfig& config) {
  std::vector<TensorRecipe> recipes;
  for (const WeightPart& part : weight_parts(config)) {
    for_each_weight(config, part, [&](const WeightRow& row, const std::string& local_name) {
      const std::string name = weight_name(part, local_name, config);
      // TransformerLens writes `_W_K` even if n_key_value_heads equals n_heads.
      std::string alias = encoder_spelling(name, config);
      if (const std::string grouped = grouped_spelling(name); grouped != name) alias = grouped;
      recipes.push_back({name, {name}, nullptr, row.optional(), std::move(alias)});
    });
  }
  return recipes;
}

}  // namespace hooked
